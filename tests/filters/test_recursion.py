"""Laws of the recursion: time, equivalences, noise, batches and runs."""

import pytest
import torch

import mdpf
from mdpf import noise, resamplers, trees
from mdpf.filters import collect_trajectory
from mdpf.testing import check_belief


def assert_same(value, other):
    for left, right in zip(trees.leaves(value), trees.leaves(other), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def assert_close(value, other, tol):
    for left, right in zip(trees.leaves(value), trees.leaves(other), strict=True):
        torch.testing.assert_close(left.to(torch.float64), right.to(torch.float64), rtol=tol, atol=tol)


def gradients_of(pf, trajectory):
    """Every part of a trajectory counts in this loss."""
    loss = trajectory.posterior.log_prob(torch.zeros_like(trajectory.posterior.locs[..., :1, :])).sum()
    loss = loss + trajectory.info.log_evidence.sum() + trajectory.posterior.locs.sin().sum()
    found = torch.autograd.grad(loss, list(pf.parameters()), allow_unused=True, materialize_grads=True)
    return dict(zip(dict(pf.named_parameters()), found, strict=True))


def recorded(pf, belief, observations, actions, generator, **options):
    recorder = noise.Recorder(generator)
    _, trajectory = pf(belief, observations, actions, generator=recorder, **options)
    return trajectory, recorder.noise


def part_of(draws, index):
    return noise.Noise(tuple(draw[index] for draw in draws.draws))


def test_time_convention_the_belief_at_frame_0_consumes_the_frames_after_it(make_filter, generator):
    """States, observations and T frames: T - 1 steps; the first moves without resampling, the second resamples."""
    frames, calls = 4, []

    def spy(mixture, num_particles, *, generator=None):
        calls.append("resample")
        return resamplers.Discrete()(mixture, num_particles, generator=generator)

    def move(points, action, *, generator=None):
        calls.append(f"action {int(action[0, 0])}")
        return points + 1

    def weigh(particles, feature):
        calls.append(f"observation {int(feature[0, 0])}")
        return torch.zeros(particles.shape[:-1])

    pf = mdpf.filters.bootstrap(move, weigh, mdpf.kernels.Gaussian(torch.ones(1)), resampler=spy)
    belief = pf.init(torch.arange(3.0).reshape(1, 3, 1))
    observations, actions = torch.arange(frames).float().reshape(1, frames, 1), torch.arange(frames - 1).float().reshape(1, -1, 1)
    _, trajectory = pf(belief, observations[:, 1:], actions, generator=generator)
    assert calls == [
        *("action 0", "observation 1"),
        *("resample", "action 1", "observation 2"),
        *("resample", "action 2", "observation 3"),
    ]
    assert trajectory.posterior.locs.shape == (1, frames - 1, 3, 1)
    assert_same(trajectory.posterior.locs[:, 0], belief.particles + 1)


def test_forward_equals_repeated_steps(make_filter, make_data, resampler, generator):
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    with torch.no_grad():
        first = pf.init(particles)
        trajectory, draws = recorded(pf, first, observations, actions, generator)
        belief, kept, stream = first, [], noise.source(draws)
        for t in range(observations.shape[1]):
            belief, info = pf.step(belief, pf.encoder(observations)[:, t], actions[:, t], generator=stream)
            check_belief(belief)
            kept.append(collect_trajectory(belief, info))
    assert_same(trajectory, trees.stack(kept, 1))


def test_steps_of_two_sequences_interleave(make_filter, make_data, resampler, generator):
    """Nothing is remembered but the belief."""
    pf = make_filter(resampler)
    data = [make_data(generator), make_data(generator)]
    noises = [recorded(pf, pf.init(p), o, a, generator)[1] for p, o, a in data]
    alone = [pf(pf.init(p), o, a, generator=draws)[0] for (p, o, a), draws in zip(data, noises, strict=True)]
    beliefs, streams = [pf.init(p) for p, _, _ in data], [noise.source(draws) for draws in noises]
    for t in range(5):
        for i, (_, o, a) in enumerate(data):
            beliefs[i], _ = pf.step(beliefs[i], pf.encoder(o)[:, t], a[:, t], generator=streams[i])
    for found, expected in zip(beliefs, alone, strict=True):
        assert_close(found, expected, 1e-12)


def test_filter_goes_on_from_a_belief(make_filter, make_data, generator):
    pf = make_filter(resamplers.ImportanceWeighted())
    particles, observations, actions = make_data(generator)
    whole, draws = recorded(pf, pf.init(particles), observations, actions, generator)
    stream = noise.source(draws)
    belief, early = pf(pf.init(particles), observations[:, :2], actions[:, :2], generator=stream)
    _, late = pf(mdpf.detach(belief), observations[:, 2:], actions[:, 2:], generator=stream)
    assert_same(whole, trees.tree_map(lambda left, right: torch.cat([left, right], 1), early, late))


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_resampler_is_handed_the_mixture_itself(make_filter, make_data, adaptive, generator):
    """Nothing is cut, copied or changed on the way: what gradient flows, the resampler alone decides."""
    handed = []

    def spy(mixture, num_particles, *, generator=None):
        handed.append(mixture)
        return resamplers.ImportanceWeighted()(mixture, num_particles, generator=generator)

    pf = make_filter(spy, adaptive=adaptive)
    particles, observations, actions = make_data(generator)
    belief, _ = pf.step(pf.init(particles), observations[:, 0], actions[:, 0], generator=generator)
    pf.step(belief, observations[:, 1], actions[:, 1], generator=generator)
    (mixture,) = handed
    assert all(mine is theirs for mine, theirs in zip(trees.leaves(mixture), trees.leaves(belief.resampling), strict=True))
    assert all(leaf.requires_grad for leaf in trees.leaves(mixture))


@pytest.mark.parametrize("truncate", [1, 2, 3])
def test_truncation_changes_no_value_and_cuts_exactly(make_filter, make_data, truncate, generator):
    """With every observation its own leaf, which losses reach which observations says where the gradient was cut."""
    pf = make_filter(resamplers.ImportanceWeighted())
    particles, observations, actions = make_data(generator)
    observations.requires_grad_()
    whole, draws = recorded(pf, pf.init(particles), observations, actions, generator)
    _, cut = pf(pf.init(particles), observations, actions, truncate=truncate, generator=draws)
    assert_same(whole, cut)
    for t in range(5):
        for trajectory, reach in ((whole, 0), (cut, t // truncate * truncate)):
            posterior = trees.tree_map(lambda tensor, t=t: tensor[:, t], trajectory.posterior)
            loss = posterior.log_prob(torch.zeros(3, 1, 3, dtype=torch.float64)).sum()
            (gradient,) = torch.autograd.grad(loss, observations, retain_graph=True)
            assert [bool(gradient[:, s].any()) for s in range(5)] == [reach <= s <= t for s in range(5)]


def test_truncation_equals_windows_with_detached_beliefs(make_filter, make_data, generator):
    pf = make_filter(resamplers.ComponentPathwise())
    particles, observations, actions = make_data(generator, num_steps=6)
    whole, draws = recorded(pf, pf.init(particles), observations, actions, generator, truncate=2)
    expected = gradients_of(pf, whole)
    belief, stream, parts = pf.init(particles), noise.source(draws), []
    for window, action in zip(observations.split(2, 1), actions.split(2, 1), strict=True):
        belief, part = pf(mdpf.detach(belief), window, action, generator=stream)
        parts.append(gradients_of(pf, part))
    for name, gradient in expected.items():
        torch.testing.assert_close(sum(part[name] for part in parts), gradient)


def test_number_of_particles_is_a_property_of_the_belief(make_filter, make_data, resampler, generator):
    pf = make_filter(resampler)
    for num_particles in (1, 2, 40):
        particles, observations, actions = make_data(generator, num_particles=num_particles)
        belief, trajectory = pf(pf.init(particles), observations, actions, generator=generator)
        check_belief(belief)
        assert trajectory.posterior.locs.shape == (3, 5, num_particles, 3)
        assert trajectory.info.log_evidence.isfinite().all()


def test_number_of_particles_changes_from_step_to_step(make_filter, make_data, resampler, generator):
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    belief = pf.init(particles)
    for t, (asked, got) in enumerate([(50, 6), (50, 50), (4, 4), (None, 4)]):
        belief, _ = pf.step(belief, observations[:, t], actions[:, t], num_particles=asked, generator=generator)
        check_belief(belief)
        assert belief.posterior.num_components == got


PAIRS = {
    "truncated-importance": (resamplers.Truncated(), resamplers.ImportanceWeighted()),
    "truncated-pathwise": (resamplers.Truncated(), resamplers.ComponentPathwise()),
    "truncated-implicit": (resamplers.Truncated(), resamplers.ImplicitlyReparameterized()),
    "discrete-stop": (resamplers.Discrete(), resamplers.StopGradient()),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("share", [None, 0.8])
def test_gradient_rules_of_one_family_have_equal_values(make_filter, make_data, pair, share, dtype, generator):
    particles, observations, actions = make_data(generator, dtype=dtype)
    first, second = (make_filter(r if share is None else resamplers.Adaptive(r, share), dtype=dtype) for r in pair)
    trajectory, draws = recorded(first, first.init(particles), observations, actions, generator)
    _, other = second(second.init(particles), observations, actions, generator=draws)
    assert_close(other, trajectory, 1e-12 if dtype == torch.float64 else 1e-5)
    ours, theirs = gradients_of(first, trajectory), gradients_of(second, other)
    assert any(not torch.allclose(ours[name], theirs[name]) for name in ours), "but not equal gradients"


def test_adaptive_filter_equals_plain_filter_with_equal_heads_and_bandwidths(make_filter, make_data, resampler, generator):
    plain, adaptive = make_filter(resampler), make_filter(resampler, adaptive=True)
    particles, observations, actions = make_data(generator)
    expected, draws = recorded(plain, plain.init(particles), observations, actions, generator)
    _, found = adaptive(adaptive.init(particles), observations, actions, generator=draws)
    assert_close(found, expected, 1e-12)
    ours, theirs = gradients_of(plain, expected), gradients_of(adaptive, found)
    torch.testing.assert_close(theirs["measurement.slope"], ours["measurement.slope"])
    shared = theirs["bandwidth.log_scale"] + theirs["resampling_bandwidth.log_scale"]
    torch.testing.assert_close(shared, ours["bandwidth.log_scale"])


def test_adaptive_filter_looks_where_its_second_head_says(make_filter, make_data, generator):
    pf = make_filter(resamplers.ImportanceWeighted(), adaptive=True)
    torch.nn.init.constant_(pf.measurement.other, -1.0)
    particles, observations, actions = make_data(generator)
    belief, info = pf.step(pf.init(particles), observations[:, 0], actions[:, 0], generator=generator)
    uniform = torch.full_like(belief.resampling.log_weights, -torch.tensor(6.0).log().item())
    torch.testing.assert_close(belief.resampling.log_weights, uniform)
    assert (belief.posterior.log_weights - uniform).abs().max() > 0.1
    ess = (-(2 * belief.posterior.log_weights).logsumexp(-1)).exp()
    torch.testing.assert_close(info.ess, ess)


def test_adaptive_filter_learns_its_second_head_from_the_posterior_alone(make_filter, make_data, generator):
    particles, observations, actions = make_data(generator)
    reached = {}
    for name in ("importance", "truncated"):
        rule = {"importance": resamplers.ImportanceWeighted(), "truncated": resamplers.Truncated()}[name]
        pf = make_filter(rule, adaptive=True)
        _, trajectory = pf(pf.init(particles), observations, actions, generator=generator)
        found = gradients_of(pf, trajectory)
        reached[name] = [bool(found[part].any()) for part in ("measurement.other", "resampling_bandwidth.log_scale")]
    assert reached == {"importance": [True, True], "truncated": [False, False]}


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_batch_equals_each_sequence_alone(make_filter, make_data, resampler, adaptive, generator):
    """One leading axis or two (runs and sequences): the same numbers as without, from the same noise."""
    pf = make_filter(resampler, adaptive=adaptive)
    particles, observations, actions = make_data(generator, (2, 3))
    trajectory, draws = recorded(pf, pf.init(particles), observations, actions, generator)
    for index in [0, 1, (0, 1), (1, 2)]:
        _, alone = pf(pf.init(particles[index]), observations[index], actions[index], generator=part_of(draws, index))
        assert_close(alone, trees.tree_map(lambda tensor, index=index: tensor[index], trajectory), 1e-10)


def test_bandwidths_of_runs_stay_with_their_runs(generator):
    """As many runs as sequences: what were aligned from the right would fit, and be another's."""
    scale = torch.tensor([[0.1], [0.2], [0.3]])
    pf = mdpf.filters.bootstrap(
        lambda points, action, *, generator: points,
        lambda particles, seen: -particles[..., 0].square(),
        lambda particles: mdpf.kernels.Gaussian(scale),
    )
    belief, _ = pf.step(pf.init(torch.randn(3, 3, 5, 1, generator=generator)), torch.zeros(3, 3, 1), generator=generator)
    assert_same(belief.posterior.kernel.scale, scale.unsqueeze(1).expand(3, 3, 1))


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_gradient_of_a_whole_sequence_is_that_of_its_values(make_filter, make_data, adaptive, generator):
    """Where resampling is a smooth function of the mixture, so is everything: no path may be missing from the gradient."""
    smooth_rule = resamplers.OptimalTransport(num_iterations=200)
    pf = make_filter(resamplers.Adaptive(smooth_rule, 0.5), adaptive=adaptive)
    particles, observations, actions = make_data(generator, (2,), num_steps=3, num_particles=4)
    observed = torch.tensor([[True, True, True], [True, False, True]])
    _, draws = recorded(pf, pf.init(particles), observations, actions, generator, observed=observed)
    names, values = zip(*pf.named_parameters(), strict=True)

    def run(particles, observations, actions, *values):
        parameters = dict(zip(names, values, strict=True))
        arguments = (pf.init(particles, check_values=False), observations, actions)
        options = {"observed": observed, "generator": draws}
        _, trajectory = torch.func.functional_call(pf, parameters, arguments, options)
        target = torch.zeros(2, 3, 1, 3, dtype=torch.float64)
        # As one tensor: gradcheck passes over what requires no gradient.
        parts = (trajectory.posterior.log_prob(target), trajectory.info.log_evidence, trajectory.posterior.locs.sin())
        return torch.cat([part.flatten() for part in parts])

    inputs = [each.detach().clone().requires_grad_() for each in (particles, observations, actions, *values)]
    assert torch.autograd.gradcheck(run, inputs, atol=1e-4, rtol=1e-3)


def test_precisions_agree(make_filter, make_data, resampler, generator):
    particles, observations, actions = make_data(generator, num_steps=2)
    double, single = make_filter(resampler), make_filter(resampler, dtype=torch.float32)
    trajectory, draws = recorded(double, double.init(particles), observations, actions, generator)
    _, other = single(single.init(particles.float()), observations.float(), actions.float(), generator=draws)
    assert {leaf.dtype for leaf in trees.leaves(other) if leaf.is_floating_point()} == {torch.float32}
    assert {leaf.dtype for leaf in trees.leaves(trajectory) if leaf.is_floating_point()} == {torch.float64}
    assert_close(other, trajectory, 2e-3)


def test_collect_keeps_only_what_is_asked_for(make_filter, make_data, generator):
    pf = make_filter(resamplers.Discrete())
    particles, observations, actions = make_data(generator)
    trajectory, draws = recorded(pf, pf.init(particles), observations, actions, generator)
    _, means = pf(pf.init(particles), observations, actions, collect=lambda belief, info: belief.posterior.mean(), generator=draws)
    torch.testing.assert_close(means, trajectory.posterior.mean())


def test_generator_is_the_only_source_of_noise(make_filter, make_data, resampler, generator):
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    state = torch.random.get_rng_state()
    runs = [pf(pf.init(particles), observations, actions, generator=torch.Generator().manual_seed(seed))[1] for seed in (3, 3, 4)]
    assert torch.equal(state, torch.random.get_rng_state())
    assert_same(runs[0], runs[1])
    assert not torch.equal(runs[0].posterior.locs, runs[2].posterior.locs)


def test_init_takes_weights(make_filter, make_data, generator):
    pf = make_filter(resamplers.Discrete())
    particles, observations, _ = make_data(generator)
    log_weights = torch.randn(3, 6, generator=generator, dtype=torch.float64).log_softmax(-1)
    belief, info = pf.step(pf.init(particles, log_weights), observations[:, 0], generator=torch.Generator().manual_seed(1))
    plain, _ = pf.step(pf.init(particles), observations[:, 0], generator=torch.Generator().manual_seed(1))
    expected = (plain.posterior.log_weights + log_weights).log_softmax(-1)
    torch.testing.assert_close(belief.posterior.log_weights, expected)
    scores = pf.measurement(belief.particles, observations[:, 0])
    torch.testing.assert_close(info.log_evidence, (log_weights + scores).logsumexp(-1))


def test_deepcopied_and_reloaded_filters_are_equal(make_filter, make_data, generator):
    pf, other = make_filter(resamplers.ImportanceWeighted()), make_filter(resamplers.ImportanceWeighted())
    with torch.no_grad():
        for parameter in pf.parameters():
            parameter.add_(0.1)
    other.load_state_dict(pf.state_dict())
    particles, observations, actions = make_data(generator)
    trajectory, draws = recorded(pf, pf.init(particles), observations, actions, generator)
    assert_same(trajectory, other(other.init(particles), observations, actions, generator=draws)[1])
