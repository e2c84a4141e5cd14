"""A prepared step gives what the filter's own step gives."""

import functools

import pytest
import torch

from mdpf import noise, prepare, trees
from mdpf.recipes.networks import VectorNetworks
from mdpf.resamplers import ImportanceWeighted
from mdpf.tasks import bearings

NETWORKS = VectorNetworks(bearings.SPACE, 2, (1.6,) * 4, (0.84, 0.84, 0.031), (0.1, 0.1, 0.001))
FILTERS = {
    "plain": lambda: NETWORKS.filter(ImportanceWeighted()),
    "two-headed": lambda: NETWORKS.adaptive_filter(ImportanceWeighted()),
    "recurrent": NETWORKS.recurrent_filter,
}
# The compiler warns of how torch builds an autograd function while it traces.
pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def front_end_alone(monkeypatch):
    """What may go wrong here is the tracing; code for the processor would take long and change only the rounding."""
    torch._dynamo.reset()
    if not torch.cuda.is_available():
        monkeypatch.setattr("mdpf.filters.prepared.torch.compile", functools.partial(torch.compile, backend="eager"))


@torch.no_grad()
def start(name, device="cpu", batch=()):
    torch.manual_seed(0)
    pf = FILTERS[name]().to(device).eval()
    source = torch.Generator(device).manual_seed(0)
    particles = torch.randn(*batch, 6, 3, generator=source, device=device)
    features = pf.encoder(torch.randn(5, *batch, 2, generator=source, device=device))
    return pf, pf.init(particles), features


@torch.no_grad()
def follow(step, belief, features):
    kept = []
    for feature in features:
        belief, info = step(belief, feature)
        kept.append((belief, info))
    return kept


def assert_same(found, expected):
    for left, right in zip(trees.leaves(tuple(found)), trees.leaves(tuple(expected)), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one sequence", "two"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_compiled_step_gives_what_the_step_gives(name, batch):
    pf, belief, features = start(name, batch=batch)
    generator = torch.Generator()
    ready = prepare(pf, belief, features[0], execution="compiled", generator=generator)
    generator.manual_seed(1)
    found = follow(ready, belief, features)
    generator.manual_seed(1)
    expected = follow(functools.partial(planned, pf, generator), belief, features)
    assert_same(found, expected)


def planned(pf, generator, belief, feature):
    """A step whose numbers are drawn all at once, as a prepared one draws them; the first of a sequence draws as it goes."""
    if getattr(belief, "resampling", belief) is None:
        return pf.step(belief, feature, generator=generator)
    recorder = noise.Recorder(torch.Generator(generator.device).manual_seed(5))
    pf.step(belief, feature, generator=recorder)
    return pf.step(belief, feature, generator=recorder.plan.draw(belief.particles, generator))


def test_a_prepared_step_serves_other_shapes_too():
    pf, belief, features = start("plain")
    ready = prepare(pf, belief, features[0], execution="compiled")
    more = pf.init(torch.randn(9, 3))
    assert follow(ready, more, features)[-1][0].particles.shape == (9, 3)
    assert ready(follow(ready, belief, features)[-1][0], None)[1].log_evidence.isfinite()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("execution", ["recorded", "both"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_recorded_step_gives_what_the_step_gives(name, execution):
    pf, belief, features = start(name, "cuda")
    generator = torch.Generator("cuda")
    ready = prepare(pf, belief, features[0], execution=execution, generator=generator)
    generator.manual_seed(1)
    found = follow(ready, belief, features)
    generator.manual_seed(1)
    expected = follow(functools.partial(planned, pf, generator), belief, features)
    assert_same(found, expected)
    # What was given out before stays as it was.
    assert_same([found[1]], [expected[1]])


def test_preparing_says_what_it_cannot_do():
    pf, belief, features = start("plain")
    with pytest.raises(ValueError, match=r"one of \('auto', 'compiled', 'recorded', 'both'\), got 'fast'"):
        prepare(pf, belief, features[0], execution="fast")
    with pytest.raises(ValueError, match="needs a CUDA device for execution='recorded', got cpu. Compile the step there."):
        prepare(pf, belief, features[0], execution="recorded")
