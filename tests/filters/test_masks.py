"""Missing frames, sequences of different length, and steps at which everything is impossible."""

import pytest
import torch
from torch import nn

import mdpf
from mdpf import kernels, noise, resamplers, trees
from mdpf.filters import bootstrap, reweight
from mdpf.testing import check_belief

NAN, INF = float("nan"), float("inf")


def at(value, index):
    return trees.tree_map(lambda tensor: tensor[index], value)


def assert_same(value, other, tol=0.0):
    for left, right in zip(trees.leaves(value), trees.leaves(other), strict=True):
        torch.testing.assert_close(left, right, rtol=tol, atol=tol)


def loss_of(trajectory):
    """Every part of a trajectory counts."""
    density = trajectory.posterior.log_prob(torch.zeros_like(trajectory.posterior.locs[..., :1, :]))
    return density.sum() + trajectory.info.log_evidence.sum() + trajectory.posterior.locs.sin().sum()


def gradients_of(pf, loss):
    found = torch.autograd.grad(loss, list(pf.parameters()), allow_unused=True, materialize_grads=True, retain_graph=True)
    return dict(zip(dict(pf.named_parameters()), found, strict=True))


def assert_finite(*values):
    for value in values:
        for leaf in value.values() if isinstance(value, dict) else trees.leaves(value):
            assert leaf.isfinite().all()


# --- Missing observations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_missing_frame_moves_and_does_not_weigh(make_filter, make_data, resampler, adaptive, generator):
    """A mask over the whole batch equals a step without feature, value and gradient; NaN behind the mask is never seen."""
    pf = make_filter(resampler, adaptive=adaptive)
    particles, observations, actions = make_data(generator)
    observed = torch.ones(3, 5, dtype=torch.bool)
    observed[:, 2] = False
    observations[:, 2] = NAN
    recorder = noise.Recorder(generator)
    _, trajectory = pf(pf.init(particles), observations, actions, observed=observed, generator=recorder)
    belief, stream = pf.init(particles), noise.source(recorder.noise)
    for t in range(5):
        feature = None if t == 2 else pf.encoder(observations[:, t])
        belief, info = pf.step(belief, feature, actions[:, t], generator=stream)
        assert_same(belief.posterior, at(trajectory.posterior, (slice(None), t)), 1e-12)
        assert_same(info, at(trajectory.info, (slice(None), t)), 1e-12)
    assert not trajectory.info.degenerate.any()
    gradients = gradients_of(pf, loss_of(trajectory))
    assert_finite(trajectory.posterior, gradients)
    assert gradients["encoder.weight"].any()


def test_missing_frames_differ_from_sequence_to_sequence(make_filter, make_data, resampler, generator):
    """Each sequence of a batch with holes equals the sequence alone, with its noise."""
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    observed = torch.tensor([[True] * 5, [True, False, True, False, True], [False] * 5])
    observations[~observed] = NAN
    recorder = noise.Recorder(generator)
    _, trajectory = pf(pf.init(particles), observations, actions, observed=observed, generator=recorder)
    assert_finite(trajectory.posterior, gradients_of(pf, loss_of(trajectory)))
    for b in range(3):
        stream = noise.source(noise.Noise(tuple(draw[b] for draw in recorder.noise.draws)))
        belief = pf.init(particles[b])
        for t in range(5):
            feature = pf.encoder(observations[b, t]) if observed[b, t] else None
            belief, info = pf.step(belief, feature, actions[b, t], generator=stream)
            assert_same(belief.posterior, at(trajectory.posterior, (b, t)), 1e-10)
            torch.testing.assert_close(info.log_evidence, trajectory.info.log_evidence[b, t])


def test_missing_frame_has_no_evidence(make_filter, make_data, generator):
    particles, observations, actions = make_data(generator)
    observed = torch.tensor([[True, True, False, False, True]]).expand(3, 5)
    for resampler in (resamplers.Discrete(), resamplers.ImportanceWeighted(), resamplers.Adaptive(resamplers.Truncated())):
        pf = make_filter(resampler)
        _, trajectory = pf(pf.init(particles), observations, actions, observed=observed, generator=generator)
        evidence = trajectory.info.log_evidence
        torch.testing.assert_close(evidence[~observed], torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-12)
        assert (evidence[observed].abs() > 1e-6).all()


# --- Sequences of different length ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_ragged_batch_equals_each_sequence_alone(make_filter, make_data, resampler, adaptive, generator):
    pf = make_filter(resampler, adaptive=adaptive)
    particles, observations, actions = make_data(generator)
    lengths = (5, 3, 1)
    valid = torch.arange(5) < torch.tensor(lengths)[:, None]
    observations[~valid], actions[~valid] = NAN, NAN
    recorder = noise.Recorder(generator)
    last, trajectory = pf(pf.init(particles), observations, actions, valid=valid, generator=recorder)
    check_belief(last)
    loss = trajectory.posterior.locs.sin().sum((-1, -2)) + trajectory.info.log_evidence + trajectory.posterior.log_weights[..., 0]
    whole = gradients_of(pf, loss.where(valid, 0.0).sum())
    assert_finite(trajectory.posterior, trajectory.info, whole)
    total = dict.fromkeys(whole, 0.0)
    for b, length in enumerate(lengths):
        draws = noise.Noise(tuple(draw[b] for draw in recorder.noise.draws))
        end, alone = pf(pf.init(particles[b]), observations[b, :length], actions[b, :length], generator=draws)
        assert_same(alone, at(trajectory, (b, slice(0, length))), 1e-10)
        assert_same(end, at(last, b), 1e-10)
        loss = alone.posterior.locs.sin().sum((-1, -2)) + alone.info.log_evidence + alone.posterior.log_weights[..., 0]
        total = {name: total[name] + gradient for name, gradient in gradients_of(pf, loss.sum()).items()}
    for name, gradient in whole.items():
        torch.testing.assert_close(gradient, total[name])


def test_belief_is_held_and_info_quiet_behind_the_end(make_filter, make_data, resampler, generator):
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    valid = torch.tensor([[True] * 5, [True, True, False, False, False], [True] * 5])
    _, trajectory = pf(pf.init(particles), observations, actions, valid=valid, generator=generator)
    for t in (2, 3, 4):
        assert_same(at(trajectory.posterior, (1, t)), at(trajectory.posterior, (1, 1)))
        torch.testing.assert_close(trajectory.info.ess[1, t], trajectory.info.ess[1, 1])
    assert not trajectory.info.log_evidence[1, 2:].any()
    assert not trajectory.info.degenerate.any()


def test_masks_combine(make_filter, make_data, generator):
    """What lies behind the end counts as missing, whatever ``observed`` says."""
    pf = make_filter(resamplers.ImportanceWeighted())
    particles, observations, actions = make_data(generator)
    valid = torch.tensor([[True] * 5, [True, True, True, False, False], [True] * 5])
    observed = torch.tensor([[True, False, True, True, True]]).expand(3, 5)
    observations[~valid] = NAN
    recorder = noise.Recorder(generator)
    _, trajectory = pf(pf.init(particles), observations, actions, valid=valid, observed=observed, generator=recorder)
    _, again = pf(pf.init(particles), observations, actions, valid=valid, observed=observed & valid, generator=recorder.noise)
    assert_same(trajectory, again)
    assert_finite(gradients_of(pf, loss_of(trajectory)))


@pytest.mark.parametrize("encoder", [True, False], ids=["encoded", "raw"])
@pytest.mark.parametrize("mask", ["observed", "valid"])
def test_masked_nan_reaches_no_gradient(make_filter, make_data, mask, encoder, generator):
    """Where-masking must protect the backward pass too, in the encoder and, where there is none, in the measurement."""
    pf = make_filter(resamplers.ImportanceWeighted(), encoder=encoder)
    particles, observations, actions = make_data(generator)
    keep = torch.tensor([[True] * 5, [True, True, True, False, False], [True] * 5])
    found = []
    for junk in (0.0, 1e3, NAN):
        spoilt = observations.masked_fill(~keep[..., None], junk).requires_grad_()
        _, trajectory = pf(pf.init(particles), spoilt, actions, **{mask: keep}, generator=torch.Generator().manual_seed(1))
        loss = loss_of(trajectory)
        (to_observations,) = torch.autograd.grad(loss, spoilt, retain_graph=True)
        assert not to_observations[~keep].any()
        found.append(gradients_of(pf, loss))
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=0)


# --- Degenerate likelihoods -------------------------------------------------------------------------------------------------------


class Spoilt(nn.Module):
    """Spoils the scores of batch element 1 at one step."""

    def __init__(self, sensor, what, step=2):
        super().__init__()
        self.sensor, self.what, self.step, self.count = sensor, what, step, 0

    def forward(self, particles, feature):
        scores = self.sensor(particles, feature)
        hit = (torch.arange(scores.shape[0]) == 1) & (self.count == self.step)
        self.count += 1
        return torch.where(hit.reshape(-1, *(1,) * (scores.ndim - 1)), self.what, scores)


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
@pytest.mark.parametrize("what", [-INF, NAN, INF], ids=["impossible", "nan", "infinite"])
def test_impossible_step_is_carried_on_and_marked(make_filter, make_data, resampler, what, adaptive, generator):
    pf = make_filter(resampler, adaptive=adaptive)
    particles, observations, actions = make_data(generator)
    particles.requires_grad_()
    recorder = noise.Recorder(generator)
    _, expected = pf(pf.init(particles), observations, actions, generator=recorder)
    healthy = pf.measurement
    pf.measurement = Spoilt(healthy, what)
    _, spoilt = pf(pf.init(particles), observations, actions, generator=recorder.noise)
    pf.measurement = healthy

    marked = torch.zeros(3, 5, dtype=torch.bool)
    marked[1, 2] = True
    assert torch.equal(spoilt.info.degenerate, marked)
    assert torch.equal(spoilt.info.log_evidence == -INF, marked)
    for neighbour in (0, 2):
        assert_same(at(spoilt, neighbour), at(expected, neighbour))
    # Carried on: the weights of that step are those of the draw, whatever they were, as if nothing had been observed.
    observed = ~marked
    _, blind = pf(pf.init(particles), observations, actions, observed=observed, generator=recorder.noise)
    assert_same(spoilt.posterior, blind.posterior, 1e-12)
    assert_finite(spoilt.posterior, spoilt.info.ess)

    loss = spoilt.posterior.log_prob(torch.zeros(3, 5, 1, 3, dtype=torch.float64)).sum()
    loss = loss + spoilt.info.log_evidence.where(~marked, 0.0).sum()
    gradients = gradients_of(pf, loss)
    (to_particles,) = torch.autograd.grad(
        spoilt.posterior.log_weights.square().sum() + spoilt.posterior.locs.sin().sum(), particles
    )
    assert_finite(gradients, to_particles)


def test_spoilt_neighbour_changes_no_gradient(make_filter, make_data, resampler, generator):
    """The gradient of two healthy sequences, to their own particles, is bit-identical with and without a bad third."""
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    particles.requires_grad_()
    recorder = noise.Recorder(generator)
    healthy, found = pf.measurement, []
    for measurement in (healthy, Spoilt(healthy, NAN)):
        pf.measurement = measurement
        _, trajectory = pf(pf.init(particles), observations, actions, generator=recorder.noise if found else recorder)
        loss = trajectory.posterior.log_prob(torch.zeros(3, 5, 1, 3, dtype=torch.float64))[..., 0] + trajectory.info.log_evidence
        (gradient,) = torch.autograd.grad(loss[[0, 2]].sum(), particles)
        found.append(gradient[[0, 2]])
    assert torch.equal(*found)
    assert found[0].any()


def test_single_impossible_particle_dies_alone(generator):
    log_weights = torch.randn(4, 6, generator=generator, dtype=torch.float64).log_softmax(-1).requires_grad_()
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64).requires_grad_()
    for bad in (NAN, INF, -INF):
        spoilt = scores.index_fill(-1, torch.tensor([2]), bad)
        found = reweight(log_weights, spoilt)
        rest = torch.tensor([0, 1, 3, 4, 5])
        expected = (log_weights + scores)[:, rest]
        torch.testing.assert_close(found.log_weights[:, rest], expected.log_softmax(-1))
        torch.testing.assert_close(found.log_evidence, expected.logsumexp(-1))
        assert (found.log_weights[:, 2] == -INF).all()
        assert not found.degenerate.any()
        loss = found.log_evidence.sum() + found.log_weights[:, rest].square().sum()
        for gradient in torch.autograd.grad(loss, [log_weights, scores]):
            assert gradient.isfinite().all()
            assert not gradient[:, 2].any()


def test_reweight_is_bayes_rule(generator):
    log_weights = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    scores = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    found = reweight(log_weights, scores)
    joint = log_weights.exp() * scores.exp()
    torch.testing.assert_close(found.log_evidence, joint.sum(-1).log())
    torch.testing.assert_close(found.log_weights.exp(), joint / joint.sum(-1, keepdim=True))
    shifted = reweight(log_weights, scores + 1e4)
    torch.testing.assert_close(shifted.log_weights, found.log_weights, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(shifted.log_evidence - 1e4, found.log_evidence, rtol=1e-9, atol=1e-9)


def test_reweight_carries_on_incoming_weights_where_nothing_is_possible():
    log_weights = torch.tensor([[0.5, 0.5], [0.2, 0.6], [0.0, 0.0]]).log().requires_grad_()
    found = reweight(log_weights, torch.tensor([[0.0, 1.0], [-INF, NAN], [0.0, 0.0]]))
    assert found.degenerate.tolist() == [False, True, True]
    torch.testing.assert_close(found.log_weights[1:].exp(), torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    assert (found.log_evidence[1:] == -INF).all()
    (gradient,) = torch.autograd.grad(found.log_weights.square().sum(), log_weights)
    assert gradient.isfinite().all()


def test_compact_kernels_survive_a_cloud_that_nothing_covers(generator):
    """Every rule that evaluates the density draws points that some kernel covers; weights and gradients stay finite."""
    observations = torch.tensor([[[0.0], [50.0], [0.0], [0.0]]])
    for resampler in (resamplers.ImportanceWeighted(), resamplers.ComponentPathwise(), resamplers.ImplicitlyReparameterized()):
        halfwidth = torch.tensor([0.1], requires_grad=True)
        pf = bootstrap(
            lambda points, action, *, generator: points + 0.1 * noise.normal(points.shape, points, generator),
            lambda particles, seen: torch.where((particles[..., 0] - seen).abs() < 1, 0.0, -INF),
            lambda particles, halfwidth=halfwidth: kernels.Epanechnikov(halfwidth),
            resampler=resampler,
        )
        particles = torch.randn(1, 20, 1, generator=generator).mul(0.2).requires_grad_()
        _, trajectory = pf(pf.init(particles), observations, generator=generator)
        assert trajectory.info.degenerate.tolist() == [[False, True, False, False]]
        loss = trajectory.posterior.log_weights.exp().square().sum() + trajectory.posterior.locs.sin().sum()
        if loss.requires_grad:
            for gradient in torch.autograd.grad(loss, [halfwidth, particles]):
                assert gradient.isfinite().all()


def test_detached_belief_is_a_belief(make_filter, make_data, generator):
    pf = make_filter(resamplers.ImportanceWeighted())
    particles, observations, actions = make_data(generator)
    belief, _ = pf(pf.init(particles), observations, actions, generator=generator)
    detached = mdpf.detach(belief)
    check_belief(detached)
    assert not any(leaf.requires_grad for leaf in trees.leaves(detached))
    assert_same(detached, belief)
