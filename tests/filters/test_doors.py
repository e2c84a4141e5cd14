"""What a filter says about bad input: each message by its second half."""

import re

import pytest
import torch

import mdpf
from mdpf import kernels, resamplers
from mdpf.filters import bootstrap

NAN = float("nan")


@pytest.fixture
def pf(make_filter):
    return make_filter(resamplers.ImportanceWeighted())


def refuses(error, words):
    return pytest.raises(error, match=re.escape(words))


BAD_INITS = {
    "one particle": (lambda p: p[0], ValueError, "Pass particles[..., None, :] for a single particle."),
    "other dimension": (lambda p: p[..., :2], ValueError, "The bandwidth smooths 3 coordinates; pass particles[..., None, :]"),
    "not a tensor": (lambda p: p.tolist(), TypeError, "got list. Pass particles"),
    "integers": (lambda p: p.long(), TypeError, "got a int64 tensor of shape [3, 6, 3]."),
    "other precision": (lambda p: p.float(), TypeError, "got torch.float64. Convert one of them with .to(torch.float32)."),
    "nan": (lambda p: p.index_fill(1, torch.tensor([2]), NAN), ValueError, "got nan at index [0, 2, 0] of shape [3, 6, 3]."),
    "infinite": (lambda p: p / 0, ValueError, "at index [0, 0, 0] of shape [3, 6, 3]. Remove or mask such values first."),
}


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
@pytest.mark.parametrize("case", BAD_INITS.values(), ids=BAD_INITS)
def test_init_names_what_is_wrong_with_particles(make_filter, make_data, case, adaptive, generator):
    spoil, error, words = case
    particles, _, _ = make_data(generator)
    pf = make_filter(resamplers.ImportanceWeighted(), adaptive=adaptive)
    unvectorised = particles[0, 0] if "single" in words and "Pass" in words and error is ValueError else spoil(particles)
    with refuses(error, words):
        pf.init(unvectorised)


@pytest.mark.parametrize(
    ("log_weights", "error", "words"),
    [
        (torch.zeros(3, 6, dtype=torch.float64), ValueError, "Apply .log_softmax(-1) to them first."),
        (torch.full((3, 6), NAN, dtype=torch.float64), ValueError, "Apply .log_softmax(-1) to them first."),
        (torch.zeros(3, 5, dtype=torch.float64), ValueError, "There is one log-weight for each component."),
        (torch.zeros(6, dtype=torch.float64), ValueError, "Every input of one call shares its batch axes."),
        (torch.zeros(3, 6), TypeError, "got torch.float32. Convert one of them with .to(torch.float64)."),
    ],
)
def test_init_names_what_is_wrong_with_weights(pf, make_data, log_weights, error, words, generator):
    with refuses(error, words):
        pf.init(make_data(generator)[0], log_weights)


BAD_SEQUENCES = {
    "lengths": ({"actions": lambda a: a[:, :3]}, ValueError, "got a float64 tensor of shape [3, 3, 3]. A belief at frame 0"),
    "all frames of the mask": ({"observed": lambda o: o[:, :1]}, ValueError, "consumes the observations and actions of the frames"),
    "no time": (
        {"observations": lambda o: o[:, :0]},
        ValueError,
        "The time axis stands right behind the batch axes of the belief.",
    ),
    "batch": ({"observations": lambda o: o[:2]}, ValueError, "The batch axes are those of the belief; the time axis stands behind"),
    "batch of actions": ({"actions": lambda a: a[:2]}, ValueError, "got a float64 tensor of shape [2, 5, 3]. The batch axes are"),
    "mask of numbers": (
        {"observed": lambda o: o.double()},
        TypeError,
        "got a float64 tensor of shape [3, 5]. Convert it with .bool()",
    ),
    "valid of numbers": ({"valid": lambda o: o.long()}, TypeError, "got a int64 tensor of shape [3, 5]. Convert it with .bool()"),
    "truncate": ({"truncate": lambda _: 0}, ValueError, "an integer of at least 1, got 0."),
}


@pytest.mark.parametrize("case", BAD_SEQUENCES.values(), ids=BAD_SEQUENCES)
def test_scan_names_what_does_not_fit(make_filter, make_data, case, generator):
    changes, error, words = case
    pf = make_filter(resamplers.Discrete(), encoder=False)
    particles, observations, actions = make_data(generator)
    mask = torch.ones(3, 5, dtype=torch.bool)
    inputs = {"observations": observations, "actions": actions, "observed": mask, "valid": mask, "truncate": None}
    inputs = {name: changes[name](value) if name in changes else value for name, value in inputs.items()}
    with refuses(error, words):
        pf(pf.init(particles), **inputs, generator=generator)


def test_scan_with_valid_needs_a_constant_number_of_particles(pf, make_data, generator):
    particles, observations, _ = make_data(generator)

    def step(belief, feature, action, *, observed, generator):
        return pf.step(belief, feature, action, observed=observed, num_particles=9, generator=generator)

    with refuses(ValueError, "got 6 before the step and 9 after it. Start with as many particles as the filter uses."):
        mdpf.scan(step, pf.init(particles), observations, valid=torch.ones(3, 5, dtype=torch.bool), generator=generator)


def test_step_names_what_does_not_fit(pf, make_data, generator):
    particles, observations, actions = make_data(generator)
    belief, _ = pf.step(pf.init(particles), observations[:, 0], actions[:, 0], generator=generator)
    with refuses(ValueError, "got a float64 tensor of shape [2, 3]. One action for each batch element, [*batch, a]."):
        pf.step(belief, observations[:, 1], actions[:2, 1], generator=generator)
    with refuses(ValueError, "got a bool tensor of shape [2]. One truth value for each batch element."):
        pf.step(belief, observations[:, 1], actions[:, 1], observed=torch.ones(2, dtype=torch.bool), generator=generator)
    with refuses(ValueError, "an integer of at least 1, got 0."):
        pf.step(belief, observations[:, 1], actions[:, 1], num_particles=0, generator=generator)


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_step_names_what_a_model_got_wrong(make_filter, make_data, adaptive, generator):
    particles, observations, _ = make_data(generator)
    pf = make_filter(resamplers.Discrete(), adaptive=adaptive)
    dynamics, measurement = pf.dynamics, pf.measurement
    cases = [
        ("dynamics", lambda points, action, *, generator: points[:, :2], ValueError, "neither add nor drop any."),
        ("dynamics", lambda points, action, *, generator: points.float(), TypeError, "got torch.float32. Convert one of them"),
        (
            "measurement",
            lambda points, feature: points[..., 0] if adaptive else points[..., :2],
            ValueError,
            "twice: for the posterior and for resampling." if adaptive else "It scores each particle once.",
        ),
    ]
    for name, bad, error, words in cases:
        del pf.dynamics, pf.measurement
        pf.dynamics, pf.measurement = dynamics, measurement
        delattr(pf, name)
        setattr(pf, name, bad)
        with refuses(error, words):
            pf.step(pf.init(particles), observations[:, 0], generator=generator)


def test_step_keeps_the_precision_of_its_particles(generator):
    def weigh(dtype):
        return lambda particles, seen: particles[..., 0].to(dtype)

    def stay(points, action, *, generator):
        return points

    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        pf = bootstrap(stay, weigh(dtype), kernels.Gaussian(torch.ones(1)))
        belief, _ = pf.step(pf.init(torch.zeros(2, 4, 1)), torch.zeros(2), generator=generator)
        assert belief.posterior.log_weights.dtype == torch.float32
    pf = bootstrap(stay, weigh(torch.float64), kernels.Gaussian(torch.ones(1)))
    with refuses(TypeError, "They would change the precision of the belief; convert the measurement or its input"):
        pf.step(pf.init(torch.zeros(2, 4, 1)), torch.zeros(2), generator=generator)


def test_noise_of_another_call_is_refused(pf, make_data, generator):
    particles, observations, actions = make_data(generator)
    recorder = mdpf.noise.Recorder(generator)
    pf(pf.init(particles), observations[:, :2], actions[:, :2], generator=recorder)
    with refuses(ValueError, "It was recorded for another call; record it again with noise.Recorder."):
        pf(pf.init(particles), observations, actions, generator=recorder.noise)
    with refuses(ValueError, "It was recorded for other shapes; record it again with noise.Recorder."):
        pf(pf.init(particles[:, :4]), observations[:, :2], actions[:, :2], generator=recorder.noise)
