"""The recurrent baseline: called like a filter, bounded, blind to what is missing."""

import pytest
import torch

from mdpf import noise, trees
from mdpf.filters import RecurrentBelief, RecurrentFilter
from mdpf.models import LearnedBandwidth, RecurrentNetwork, mlp
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")
NAN = float("nan")


def make(*, action_dim=3, bound=(1.6, 1.6, 0.9, 0.9), **options):
    torch.manual_seed(2)
    network = RecurrentNetwork(
        SPACE, feature_dim=4, bound=bound, encoder_dim=5, action_dim=action_dim, memory_dim=6, num_layers=2, **options
    )
    bandwidth = LearnedBandwidth(SPACE, (0.8, 0.8, 0.1), (0.1, 0.1, 0.01))
    return RecurrentFilter(network=network, bandwidth=bandwidth, encoder=mlp([2, 4])).double()


def data(generator, batch=(3,), num_steps=5):
    draw = lambda *shape: torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)  # noqa: E731
    return SPACE.wrap(draw(1, 3)), draw(num_steps, 2), draw(num_steps, 3)


def test_forward_equals_steps(batch, generator):
    rf, (particles, observations, actions) = make(), data(generator, batch)
    last, trajectory = rf(rf.init(particles), observations, actions)
    assert trajectory.posterior.locs.shape == (*batch, 5, 1, 3)
    assert trajectory.info.ess.eq(1).all()
    assert not trajectory.info.degenerate.any()
    assert not trajectory.info.log_evidence.any()
    belief = rf.init(particles)
    for t in range(5):
        belief, _ = rf.step(belief, rf.encoder(observations[..., t, :]), actions[..., t, :])
        torch.testing.assert_close(belief.particles, trajectory.posterior.locs.select(len(batch), t))
    for left, right in zip(trees.leaves(belief), trees.leaves(last), strict=True):
        torch.testing.assert_close(left, right)
    assert isinstance(last, RecurrentBelief)
    assert last.hidden.shape == last.cell.shape == (*batch, 2, 6)


def test_posterior_is_a_normalised_mixture_of_one_component(generator):
    rf, (particles, observations, actions) = make(), data(generator)
    _, trajectory = rf(rf.init(particles), observations, actions)
    assert not trajectory.posterior.log_weights.any()
    truth = trajectory.posterior.locs
    expected = rf.bandwidth(particles).log_prob(truth[..., 0, :], truth[..., 0, :])
    torch.testing.assert_close(trajectory.posterior.log_prob(truth).squeeze(-1), expected)
    torch.testing.assert_close(trajectory.posterior.mean(), truth.squeeze(-2))


def test_many_particles_start_it_at_their_mean(generator):
    rf = make()
    particles = torch.tensor([[[0.0, 1.0, 3.0], [2.0, 3.0, -3.0]]], dtype=torch.float64)
    start = rf.init(particles)
    torch.testing.assert_close(start.particles, torch.tensor([[[1.0, 2.0, -torch.pi]]], dtype=torch.float64))
    weighted = rf.init(particles, torch.tensor([[1.0, 0.0]], dtype=torch.float64).log())
    torch.testing.assert_close(weighted.particles, particles[:, :1])
    assert torch.equal(rf.init(particles[:, :1]).particles, particles[:, :1])
    assert not start.hidden.any()
    assert not start.cell.any()


def test_step_is_bounded_unless_as_published(generator):
    particles, observations, actions = data(generator, (50,), 1)
    for published in (False, True):
        rf = make(as_published=published, bound=(0.5, 0.25, 0.1, 0.1))
        torch.nn.init.constant_(rf.network.step[-1].bias, 30.0)
        belief, _ = rf(rf.init(particles), observations, actions)
        step = (belief.particles - particles)[..., 0, :2].abs()
        if published:
            assert (step > 2).all()
        else:
            assert (step <= torch.tensor([0.5, 0.25]) + 1e-6).all()
            assert (step > torch.tensor([0.49, 0.24])).all()


def test_it_sees_where_it_is_unless_as_published(generator):
    particles, observations, actions = data(generator)
    shift = torch.tensor([4.0, -3.0, 0.0], dtype=torch.float64)
    for published in (False, True):
        rf = make(as_published=published)
        here, there = (rf(rf.init(start), observations, actions)[0].particles for start in (particles, particles + shift))
        assert torch.allclose(there, here + shift) == published


@pytest.mark.parametrize("published", [False, True])
def test_every_parameter_gets_a_gradient(published, generator):
    rf, (particles, observations, actions) = make(as_published=published), data(generator, (20,))
    _, trajectory = rf(rf.init(particles), observations, actions)
    loss = trajectory.posterior.log_prob(torch.zeros(20, 5, 1, 3, dtype=torch.float64)).sum()
    assert all(found.any() for found in torch.autograd.grad(loss, list(rf.parameters())))


def test_missing_observation_is_a_feature_of_zero(generator):
    rf, (particles, observations, actions) = make(), data(generator)
    observed = torch.tensor([[True] * 5, [True, False, True, False, True], [False] * 5])
    observations[~observed] = NAN
    _, trajectory = rf(rf.init(particles), observations, actions, observed=observed)
    for b in range(3):
        belief = rf.init(particles[b])
        for t in range(5):
            feature = rf.encoder(observations[b, t]) if observed[b, t] else None
            belief, _ = rf.step(belief, feature, actions[b, t])
            torch.testing.assert_close(belief.particles, trajectory.posterior.locs[b, t])
    loss = trajectory.posterior.locs.square().sum()
    found = torch.autograd.grad(loss, list(rf.parameters()), allow_unused=True, materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in found)


def test_frames_that_do_not_exist_leave_belief_and_memory_alone(generator):
    rf, (particles, observations, actions) = make(), data(generator)
    lengths = torch.tensor([5, 2, 4])
    valid = torch.arange(5) < lengths.unsqueeze(-1)
    observations[~valid], actions[~valid] = NAN, NAN
    last, trajectory = rf(rf.init(particles), observations, actions, valid=valid)
    for b, length in enumerate(lengths.tolist()):
        alone, _ = rf(rf.init(particles[b]), observations[b, :length], actions[b, :length])
        for left, right in zip(trees.leaves(alone), trees.leaves(last), strict=True):
            torch.testing.assert_close(left, right[b])
    loss = trajectory.posterior.locs.square().sum()
    found = torch.autograd.grad(loss, list(rf.parameters()), allow_unused=True, materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in found)


def test_truncation_cuts_estimate_and_memory(generator):
    rf, (particles, observations, actions) = make(), data(generator)
    actions.requires_grad_()
    _, trajectory = rf(rf.init(particles), observations, actions, truncate=2)
    (reach,) = torch.autograd.grad(trajectory.posterior.locs[:, 3].sum(), [actions])
    assert reach.abs().sum((0, 2)).gt(0).tolist() == [False, False, True, True, False]


def test_it_draws_nothing(generator):
    rf, (particles, observations, actions) = make(), data(generator)
    recorder = noise.Recorder(generator)
    before = torch.get_rng_state()
    left, _ = rf(rf.init(particles), observations, actions, generator=recorder)
    right, _ = rf(rf.init(particles), observations, actions)
    assert recorder.noise.draws == ()
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(left.particles, right.particles)


def test_errors_say_what_to_do(generator):
    with pytest.raises(ValueError, match="one bound for each of the 4 encoded coordinates, got 2"):
        make(bound=(1.0, 1.0))
    rf, (particles, observations, actions) = make(), data(generator)
    with pytest.raises(ValueError, match="got none. Pass actions"):
        rf(rf.init(particles), observations)
    with pytest.raises(ValueError, match="step needs action with leading axes"):
        rf.step(rf.init(particles), None, actions[:2, 0])
    with pytest.raises(ValueError, match="RecurrentFilter.init needs finite particles"):
        rf.init(particles * NAN)
    with pytest.raises(ValueError, match="got one. Pass actions"):
        make(action_dim=0)(rf.init(particles), observations, actions)
