"""What training minimises: written out once more, blind to what is not there, and without waiting."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mdpf import Mixture, noise, trees
from mdpf.data.sequences import SequenceBatch
from mdpf.kernels import Gaussian, Product, VonMises
from mdpf.models import stack_runs
from mdpf.training import adam
from mdpf.training.flat import FlatParameters
from mdpf.training.objectives import Disturbed, Scoring, Tracking, mean_over

METHODS = ["importance", "adaptive", "recurrent"]
NAN = float("nan")


def cloud(width):
    return lambda like: Product((Gaussian(like.new_full((2,), width)), VonMises(like.new_full((1,), 10.0))))


@pytest.fixture
def scoring(task):
    return Scoring(task.space, cloud(2.0), cloud(3.0), num_particles=6, bandwidths=(1.0, 1.0, 0.1))


@pytest.fixture
def distance(tracking):
    """A loss that makes a NaN of a NaN, in value and gradient."""
    return replace(tracking, loss=lambda posterior, states: (posterior.mean() - states).square().sum(-1))


def batch_of(data, num_runs, size=3):
    return data[0].take(torch.arange(num_runs * size).view(num_runs, size))


def gradients(pf, loss):
    found = torch.autograd.grad(loss.sum(), list(pf.parameters()), allow_unused=True, materialize_grads=True)
    return dict(zip(dict(pf.named_parameters()), found, strict=True))


def test_tracking_averages_the_loss_of_labelled_frames_after_the_first(make_single, task, tracking, data, generator):
    pf, batch = make_single(), batch_of(data, 1).map(lambda tensor: tensor[0])
    recorder = noise.Recorder(generator)
    found = tracking(pf, batch, generator=recorder)
    stream = noise.source(recorder.noise)
    belief = pf.init(task.prior(batch.states[:, 0], 4, generator=stream))
    losses = []
    for t in range(1, 9):
        if t == 5:
            belief = trees.detach(belief)
        belief, _ = pf.step(belief, pf.encoder(batch.observations[:, t]), generator=stream)
        if t in (4, 8):
            losses.append(-belief.posterior.log_prob(batch.states[:, t, None]))
    expected = torch.cat(losses).mean()
    torch.testing.assert_close(found, expected)
    for name, gradient in gradients(pf, expected).items():
        torch.testing.assert_close(gradients(pf, tracking(pf, batch, generator=recorder.noise))[name], gradient)


def test_tracking_finds_where_nothing_was_possible(make_stack, tracking, data, generator):
    """One sequence of one run at one frame: there alone, and without a trace in anybody's gradient but that run's own."""
    pf, batch = make_stack(), batch_of(data, 2)
    honest = pf.measurement
    recorder = noise.Recorder(generator)
    clean = tracking.find(pf, batch, generator=recorder)
    assert not clean.degenerate.any()

    class Blind(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.frame = honest, 0

        def forward(self, particles, feature):
            scores, self.frame = self.inner(particles, feature), self.frame + 1
            blind = torch.zeros(2, 3, 1, dtype=torch.bool)
            blind[1, 2] = self.frame == 5
            return scores.masked_fill(blind, -torch.inf)

    pf.measurement = Blind()
    found = tracking.find(pf, batch, generator=recorder.noise)
    assert found.degenerate.nonzero().tolist() == [[1, 2, 4]]
    assert found.loss[0] == clean.loss[0]
    assert found.loss.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(pf, found.loss).values())


def test_scoring_judges_weighted_clouds_of_every_labelled_frame(make_single, task, scoring, data, generator):
    pf, batch = make_single(), batch_of(data, 1).map(lambda tensor: tensor[0])
    recorder = noise.Recorder(generator)
    found = scoring(pf, batch, generator=recorder)
    stream = noise.source(recorder.noise)
    middle = cloud(2.0)(batch.states).sample(batch.states, generator=stream)
    particles = cloud(3.0)(batch.states).sample(middle.unsqueeze(-2).expand(3, 9, 6, 3), generator=stream)
    weights = pf.measurement(particles, pf.encoder(batch.observations)).log_softmax(-1)
    kernel = Product((Gaussian(torch.ones(2)), VonMises(torch.tensor([10.0]))))
    density = Mixture(particles, weights, kernel).log_prob(batch.states.unsqueeze(-2)).squeeze(-1)
    torch.testing.assert_close(found, -density[:, ::4].mean())
    reached = {name for name, gradient in gradients(pf, found).items() if gradient.any()}
    assert {name.split(".")[0] for name in reached} == {"measurement", "encoder"}


def test_scoring_trains_both_heads_equally(make_single, scoring, data, generator):
    pf, batch = make_single(method="adaptive"), batch_of(data, 1).map(lambda tensor: tensor[0])
    pf.measurement.heads[1].load_state_dict(pf.measurement.heads[0].state_dict())
    found = gradients(pf, scoring(pf, batch, generator=generator))
    for name, gradient in found.items():
        if name.startswith("measurement.heads.0"):
            torch.testing.assert_close(gradient, found[name.replace("heads.0", "heads.1")])
            assert gradient.any() or name.endswith("bias")


@pytest.mark.parametrize("objective", ["tracking", "distance", "scoring"])
def test_what_is_not_there_reaches_neither_value_nor_gradient(objective, make_single, data, request, generator):
    """NaN behind every mask changes nothing; a shorter sequence equals itself alone."""
    goal, pf = request.getfixturevalue(objective), make_single()
    whole = batch_of(data, 1).map(lambda tensor: tensor[0])
    observed, valid = torch.ones(3, 9, dtype=torch.bool), torch.ones(3, 9, dtype=torch.bool)
    observed[0, [2, 4]], valid[2, 6:] = False, False
    holes = SequenceBatch(
        torch.where(whole.targets.unsqueeze(-1), whole.states, NAN).masked_fill(~valid.unsqueeze(-1), NAN),
        whole.observations.masked_fill(~(observed & valid).unsqueeze(-1), NAN),
        labelled=whole.labelled,
        valid=valid,
        observed=observed,
    )
    filled = holes.map(lambda tensor: torch.where(tensor.isnan(), 0.7, tensor) if tensor.is_floating_point() else tensor)
    recorder = noise.Recorder(generator)
    left, right = goal(pf, holes, generator=recorder), goal(pf, filled, generator=recorder.noise)
    assert left.isfinite()
    assert torch.equal(left, right)
    other = gradients(pf, right)
    for name, gradient in gradients(pf, left).items():
        assert gradient.isfinite().all()
        assert torch.equal(gradient, other[name])


def test_mean_over_counts_each_run_for_itself():
    losses = torch.tensor([[[1.0, 2.0], [NAN, 4.0]], [[5.0, NAN], [NAN, NAN]], [[1.0, 1.0], [1.0, 1.0]]])
    mask = torch.tensor([[[True, True], [False, True]], [[True, False], [False, False]], [[False, False], [False, False]]])
    torch.testing.assert_close(mean_over(losses, mask), torch.tensor([7 / 3, 5.0, 0.0]))


@pytest.mark.parametrize("method", METHODS)
def test_one_training_step_of_three_runs_equals_three_steps_of_one(method, make_single, tracking, data, generator):
    """Objective, backward and optimiser: each run as if it were alone, with the same batch and noise."""
    singles = [make_single(seed, method).double() for seed in range(3)]
    batch = batch_of(data, 3).to(dtype=torch.float64)
    rates, clip = {"": 1e-3, "bandwidth": 1e-4}, 5.0
    recorder = noise.Recorder(generator)

    def train(stacked, batch, source):
        num_runs = len(batch.states)
        flat = FlatParameters(stacked, num_runs)
        state = adam.start(flat.values)
        losses = tracking(stacked, batch, generator=source)
        losses.sum().backward()
        active = torch.ones(num_runs, dtype=torch.bool)
        norm = adam.update(
            state, flat.values, flat.collect_gradients(), flat.columns(rates).expand(num_runs, -1), active, clip, 1e-3
        )
        return losses, norm, flat.values, state.first, state.second

    together = train(stack_runs(singles), batch, recorder)
    assert (together[1] > clip).any()
    for run, single in enumerate(singles):
        own = noise.Noise(tuple(draw[run : run + 1] for draw in recorder.noise.draws))
        alone = train(stack_runs([single]), batch.take(slice(run, run + 1)), own)
        for left, right in zip(alone, together, strict=True):
            torch.testing.assert_close(left[0], right[run], rtol=1e-7, atol=1e-10)


def test_run_gone_astray_leaves_its_neighbours_alone(make_stack, tracking, data, generator):
    stacked, batch = make_stack(3), batch_of(data, 3)
    flat, recorder = FlatParameters(stacked, 3), noise.Recorder(generator)
    tracking(stacked, batch, generator=recorder).sum().backward()
    expected = flat.collect_gradients()
    flat.values[1] = NAN
    tracking(stacked, batch, generator=recorder.noise).sum().backward()
    found = flat.collect_gradients()
    assert not found[1].isfinite().all()
    # Not to the last bit: which of two formulas evaluates a density may depend on all clouds of a call.
    torch.testing.assert_close(found[[0, 2]], expected[[0, 2]], rtol=1e-4, atol=1e-5)


# Operators whose result the host needs before it can go on: a value, or a shape that depends on values.
WAITING = {"_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "unique", "_unique2", "bincount", "equal"}


class NeverWaits(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in WAITING, f"the host waits for {name}"
        masks = args[1] if name in ("index", "index_put_", "index_put") else ()
        assert not any(mask is not None and mask.dtype in (torch.bool, torch.uint8) for mask in masks), "the host waits for a mask"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("objective", ["tracking", "scoring"])
@pytest.mark.parametrize("method", METHODS)
def test_training_step_never_waits_for_the_device(method, objective, make_stack, data, request, generator):
    if method == "recurrent" and objective == "scoring":
        pytest.skip("it has no measurement model")
    stacked, goal, batch = make_stack(2, method), request.getfixturevalue(objective), batch_of(data, 2)
    flat = FlatParameters(stacked, 2)
    state, rates, active = adam.start(flat.values), torch.full_like(flat.values, 1e-3), torch.ones(2, dtype=torch.bool)
    before = flat.values.clone()
    with NeverWaits():
        goal(stacked, batch, generator=generator).sum().backward()
        adam.update(state, flat.values, flat.collect_gradients(), rates, active, 5.0, 1e-3)
    assert not torch.equal(before, flat.values)


def test_never_waits_notices_the_door(make_single, task, data):
    pf = make_single()
    with NeverWaits(), pytest.raises(AssertionError, match="the host waits"):
        pf.init(task.prior(data[0].states[:, 0], 4))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("num_runs", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_step_with_learned_networks_compiles_without_a_break(method, num_runs, make_stack, make_single, task, data, generator):
    pf = make_stack(2, method) if num_runs == 2 else make_single(method=method)
    batch = batch_of(data, 2) if num_runs == 2 else data[0].take(slice(0, 3))
    features = pf.encoder(batch.observations).detach()
    belief = pf.init(task.prior(batch.states[..., 0, :], 4, generator=generator))
    belief = trees.detach(pf.step(belief, features[..., 1, :], generator=generator)[0])
    recorder = noise.Recorder(generator)
    expected = pf.step(belief, features[..., 2, :], generator=recorder)
    torch._dynamo.reset()
    found = torch.compile(pf.step, fullgraph=True, backend="eager")(belief, features[..., 2, :], generator=recorder.noise)
    for left, right in zip(trees.leaves(found), trees.leaves(expected), strict=True):
        torch.testing.assert_close(left, right)


def test_tracking_needs_particles(task):
    with pytest.raises(ValueError, match="Tracking needs num_particles to be an integer of at least 1, got 0"):
        Tracking(lambda posterior, states: states, task.prior, 0)


def test_a_disturbed_batch_is_what_the_objective_sees(make_single, tracking, data, generator):
    """The disturbance is drawn first, from the same source, anew in every call."""

    def louder(batch, *, generator=None):
        extra = noise.normal(tuple(batch.observations.shape), batch.observations, generator)
        return batch._replace(observations=batch.observations + extra)

    pf, batch = make_single(), batch_of(data, 1).map(lambda tensor: tensor[0])
    recorder = noise.Recorder(generator)
    found = Disturbed(tracking, louder)(pf, batch, generator=recorder)
    first, *others = recorder.noise.draws
    changed = batch._replace(observations=batch.observations + first)
    assert torch.equal(found, tracking(pf, changed, generator=noise.Noise(tuple(others))))
    assert not torch.equal(found, Disturbed(tracking, louder)(pf, batch, generator=generator))
