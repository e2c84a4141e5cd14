"""Whatever a robot hands in: an answer in our words, or a belief whose numbers are finite and whose weights sum to one."""

import math
import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# More, and other, examples: MDPF_FUZZ=10000.
examples = os.environ.get("MDPF_FUZZ")
quick = settings(
    max_examples=int(examples or 40),
    derandomize=examples is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
METHODS = ("MDPF", "A-MDPF", "SR-PF", "LSTM")
numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, math.pi, 100.0, 1e-40, 1e10, -1e30, 3e38, 1e300, math.inf, -math.inf, math.nan]),
    st.floats(-10, 110),
)
shapes = st.one_of(
    st.just((3,)), st.just((1,)), st.just((2,)), st.just((4, 2)), st.just((2, 3)), st.lists(st.integers(0, 3), max_size=3)
)
odd = st.sampled_from(["", "here", b"x", {}, object(), [[1.0], [2.0, 3.0]], (), 1j, True, 7])


@st.composite
def arrays(draw, likely):
    """An array, mostly of the shape that is wanted."""
    shape = tuple(draw(st.one_of(st.just(likely), st.just(likely), shapes)))
    size = math.prod(shape)
    array = np.array(draw(st.lists(numbers, min_size=size, max_size=size)), dtype=np.float64).reshape(shape)
    with np.errstate(all="ignore"):
        array = array.astype(draw(st.sampled_from(["f8", "f4", "f4", "i4", "u1"])))
    return draw(st.sampled_from([array, torch.from_numpy(array), array.tolist()]))


def check(belief, batch):
    posterior = belief.posterior
    assert posterior.locs.shape[:-2] == batch
    assert bool(posterior.locs.isfinite().all())
    assert bool(belief.mean().isfinite().all())
    assert bool(belief.log_evidence.isnan().logical_not().all())
    assert bool((belief.ess > 0.999).all())
    torch.testing.assert_close(posterior.log_weights.exp().sum(-1), torch.ones(batch), rtol=0, atol=1e-4)


def must_explain(error):
    assert " needs " in str(error)


@pytest.fixture(scope="module")
def trackers():
    return {}


@quick
@given(data=st.data())
def test_fuzz_init_and_step(make_tracker, trackers, data):
    method = data.draw(st.sampled_from(METHODS))
    if method not in trackers:
        trackers[method] = make_tracker(method, num_particles=6)
    tracker, generator = trackers[method], torch.Generator().manual_seed(0)
    start = data.draw(st.sampled_from(["guess", "samples", "box", "spread", "sound", "sound"]))
    given = {
        "guess": lambda: {"guess": data.draw(st.one_of(arrays((2,)), odd))},
        "samples": lambda: {"samples": data.draw(st.one_of(arrays((6, 2)), odd))},
        "box": lambda: {"box": data.draw(st.one_of(st.tuples(arrays((2,)), arrays((2,))), odd))},
        "spread": lambda: {"guess": [100.0, 0.0], "spread": data.draw(st.one_of(arrays((2,)), odd))},
        "sound": lambda: {"guess": [[100.0, 0.0]] * 2},
    }[start]()
    try:
        belief = tracker.init(**given, generator=generator)
    except (ValueError, TypeError) as error:
        must_explain(error)
        must_explain(error if start != "sound" else "a sound start was refused")
        return
    batch = belief.posterior.batch_shape
    check(belief, batch)
    for _ in range(data.draw(st.integers(1, 4))):
        observation = data.draw(st.one_of(st.none(), arrays((*batch, 3)), arrays((*batch, 3)), odd))
        action = data.draw(st.one_of(arrays((*batch, 1)), arrays((*batch, 1)), st.just(np.zeros((*batch, 1))), odd))
        try:
            belief = tracker.step(belief, observation, action, generator=generator)
        except (ValueError, TypeError) as error:
            must_explain(error)
            continue
        check(belief, batch)
