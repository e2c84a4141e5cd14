"""The tracker: every way to start, missing and absurd observations, knowing that it is lost, and starting anew in part."""

import math

import numpy as np
import pytest
import torch

from mdpf import noise
from mdpf.data.sequences import SequenceBatch
from mdpf.filters import AdaptiveParticleFilter, ParticleFilter
from mdpf.kernels import Gaussian
from mdpf.models import FixedBandwidth
from mdpf.recipes.vigilance import learn
from mdpf.resamplers import ImportanceWeighted
from mdpf.spaces import StateSpace
from mdpf.tracking import Around, Box, Tracker, Vigilance
from mdpf.tracking.tracker import refresh

SPACE = StateSpace.of("x", "y")


class Walk(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.1))

    def forward(self, points, action=None, *, generator=None):
        moved = points if action is None else points + action.unsqueeze(-2)
        return moved + self.scale * noise.normal(tuple(points.shape), points, generator)


def score(particles, seen):
    return -0.5 * ((particles - seen.unsqueeze(-2)) / 0.3).square().sum(-1)


def make(*, adaptive=False, action_dim=0, **options):
    parts = {"dynamics": Walk(), "bandwidth": FixedBandwidth(Gaussian(torch.full((2,), 0.1))), "resampler": ImportanceWeighted()}
    if adaptive:
        two = {"measurement": lambda points, seen: torch.stack([score(points, seen)] * 2, -1)}
        filter = AdaptiveParticleFilter(**parts, **two, resampling_bandwidth=parts["bandwidth"])
    else:
        filter = ParticleFilter(**parts, measurement=score)
    box = Box(SPACE, (-5.0, -5.0), (5.0, 5.0))
    return Tracker(filter, SPACE, (2,), Around(SPACE, (0.5, 0.5)), box=box, action_dim=action_dim, **options)


@pytest.fixture
def tracker():
    return make()


class TestStart:
    def test_around_a_guess_with_the_spread_asked_for(self, tracker, generator):
        particles = tracker.init([1.0, 2.0], spread=[0.1, 2.0], num_particles=20_000, generator=generator).particles
        torch.testing.assert_close(particles.mean(0), torch.tensor([1.0, 2.0]), rtol=0, atol=0.1)
        torch.testing.assert_close(particles.std(0), torch.tensor([0.1, 2.0]), rtol=0.05, atol=0)

    def test_over_a_box(self, tracker, generator):
        particles = tracker.init(box=([0.0, 10.0], [1.0, 20.0]), num_particles=5000, generator=generator).particles
        assert particles[:, 0].min() >= 0
        assert particles[:, 0].max() <= 1
        torch.testing.assert_close(particles.mean(0), torch.tensor([0.5, 15.0]), rtol=0, atol=0.3)

    def test_over_its_own_box(self, tracker, generator):
        particles = tracker.init(box=True, generator=generator).particles
        assert particles.shape == (100, 2)
        assert particles.abs().max() <= 5

    def test_from_samples(self, tracker):
        samples = np.random.default_rng(0).normal(size=(7, 2))
        assert torch.equal(tracker.init(samples=samples).particles, torch.as_tensor(samples, dtype=torch.float32))

    def test_in_batches(self, tracker):
        assert tracker.init(torch.zeros(3, 4, 2)).particles.shape == (3, 4, 100, 2)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "one of guess, box and samples, got none"),
            ({"guess": [0.0, 0.0], "box": True}, "got guess and box"),
            ({"box": True, "spread": 1.0}, "a guess to go with spread"),
            ({"guess": [0.0, 0.0], "spread": [1.0, -1.0]}, r"spreads between 0 and 1e\+15, got"),
            ({"guess": [0.0, 0.0], "spread": [1.0, 1e30]}, r"spreads between 0 and 1e\+15, got"),
            ({"guess": [0.0]}, r"\[\*batch, 2\], got a float32 tensor of shape \[1\]"),
            ({"guess": [0.0, math.nan]}, "finite guess, got nan"),
            ({"guess": "here"}, "numbers, got 'here'"),
            ({"box": ([0.0, 1.0], [1.0, 0.0])}, "a lower and an upper bound"),
            ({"box": ([0.0], [1.0])}, "a lower and an upper bound"),
            ({"samples": [[0.0, math.inf]]}, "finite samples"),
            ({"guess": [0.0, 0.0], "num_particles": 0}, "at least 1, got 0"),
        ],
    )
    def test_what_does_not_fit_is_said(self, tracker, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            tracker.init(**options)


class TestStep:
    def test_follows_what_it_sees(self, tracker, generator):
        belief = tracker.init([0.0, 0.0], generator=generator)
        for t in range(1, 30):
            belief = tracker.step(belief, [0.05 * t, -0.05 * t], generator=generator)
        torch.testing.assert_close(belief.mean(), torch.tensor([1.45, -1.45]), rtol=0, atol=0.3)
        assert int(belief.modes().count) == 1
        assert belief.covariance().shape == (2, 2)

    @pytest.mark.parametrize("absurd", [None, [math.nan, 0.0], [math.inf, 0.0], [1e38, -1e38]])
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_missing_and_absurd_observations_leave_a_belief(self, absurd, adaptive, generator):
        tracker = make(adaptive=adaptive)
        belief = tracker.init([0.0, 0.0], generator=generator)
        for _ in range(5):
            belief = tracker.step(belief, absurd, generator=generator)
            assert bool(belief.particles.isfinite().all())
            assert float(belief.posterior.log_weights.exp().sum()) == pytest.approx(1, abs=1e-4)
            assert float(belief.mean().norm()) < 3
        belief = tracker.step(belief, [0.1, 0.1], generator=generator)
        assert not bool(belief.degenerate)

    def test_one_missing_observation_leaves_its_neighbours_alone(self, tracker, generator):
        belief = tracker.init(torch.zeros(2, 2), generator=generator)
        recorder = noise.Recorder(generator)
        both = tracker.step(belief, [[0.1, 0.2], [0.1, 0.2]], generator=recorder)
        one = tracker.step(belief, [[0.1, 0.2], [math.nan, 0.2]], generator=recorder.noise)
        assert torch.equal(both.posterior.log_weights[0], one.posterior.log_weights[0])
        assert torch.equal(one.posterior.log_weights[1], belief.posterior.log_weights[1])
        assert float(one.log_evidence[1]) == 0

    def test_particles_that_are_no_numbers_are_never_believed(self, generator):
        tracker = make(action_dim=2)
        belief = tracker.init([0.0, 0.0], generator=generator)
        new = tracker.step(belief, [0.0, 0.0], [3e38, 3e38], generator=generator)
        new = tracker.step(new, [0.0, 0.0], [3e38, 3e38], generator=generator)
        assert bool(new.particles.isfinite().all())
        assert bool(new.degenerate)

    @pytest.mark.parametrize(
        ("arguments", "action_dim", "message"),
        [
            (([0.0],), 0, r"of shape \[2\], got \[1\]"),
            (([0.0, 0.0], [0.0]), 0, "needs no action, got one"),
            (([0.0, 0.0],), 2, "an action of 2 numbers, got none"),
            (([0.0, 0.0], [0.0]), 2, r"\[\*batch, 2\], got"),
            (([0.0, 0.0], [0.0, math.nan]), 2, "finite action, got nan"),
            (("there",), 0, "numbers, got 'there'"),
        ],
    )
    def test_what_does_not_fit_is_said(self, arguments, action_dim, message):
        tracker = make(action_dim=action_dim)
        with pytest.raises((ValueError, TypeError), match=message):
            tracker.step(tracker.init([0.0, 0.0]), *arguments)


class TestLost:
    def sequences(self, num_sequences, generator):
        steps = 0.1 * torch.randn(num_sequences, 60, 2, generator=generator)
        states = steps.cumsum(1)
        return SequenceBatch(states, states + 0.3 * torch.randn(num_sequences, 60, 2, generator=generator))

    def test_threshold_is_learned_from_right_tracks(self, generator):
        data = self.sequences(20, generator)
        vigilance = learn(make(), data, limit=2.0)
        tracker = make(vigilance=vigilance)
        belief, told = tracker.init(data.states[:, 0]), torch.zeros(20, 60, dtype=torch.bool)
        for frame in range(1, 60):
            belief = tracker.step(belief, data.observations[:, frame], generator=generator)
            told[:, frame] = belief.lost
        assert told.float().mean() < 0.02

    def test_lost_is_told_and_found_again_if_asked(self, generator):
        vigilance = learn(make(), self.sequences(20, generator), limit=2.0)
        seen = torch.tensor([4.0, -4.0])
        for recover, finds in ((0.0, False), (0.3, True)):
            tracker = make(vigilance=vigilance, recover=recover, num_particles=200)
            belief, lost = tracker.init([-4.0, 4.0], spread=0.1, generator=generator), False
            for _ in range(12):
                belief = tracker.step(belief, seen, generator=generator)
                lost |= bool(belief.lost)
            assert lost
            assert bool((belief.mean() - seen).norm() < 1.0) == finds

    def test_without_a_threshold_nothing_is_said(self, tracker):
        assert tracker.step(tracker.init([0.0, 0.0])).lost is None

    def test_nothing_is_learned_from_tracks_that_are_wrong(self, generator):
        data = self.sequences(5, generator)
        assert learn(make(), data._replace(observations=data.observations + 100), limit=0.1) is None

    def test_recovery_needs_a_threshold(self):
        with pytest.raises(ValueError, match="a learned threshold and a region"):
            make(recover=0.1)

    def test_fresh_particles_weigh_what_they_should(self, generator):
        tracker = make(adaptive=True, vigilance=Vigilance(0.0, 0.0))
        belief = tracker.step(tracker.init(torch.zeros(2, 2)), torch.zeros(2, 2)).belief
        new = refresh(belief, torch.tensor([True, False]), 0.25, Box(SPACE, (90.0, 90.0), (99.0, 99.0)), generator)
        fresh = new.posterior.locs[0, :, 0] > 50
        assert int(fresh.sum()) == 25
        for mixture in (new.posterior, new.resampling):
            torch.testing.assert_close(mixture.log_weights[0, fresh].exp().sum(), torch.tensor(0.25))
            torch.testing.assert_close(mixture.log_weights.exp().sum(-1), torch.ones(2))
        assert torch.equal(new.posterior.locs[1], belief.posterior.locs[1])
