"""A step breaks no graph and never waits for the device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mdpf import noise, trees

# Operators whose result the host needs before it can go on: a value, or a shape that depends on values.
WAITING = {"_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "unique", "_unique2", "bincount", "equal"}


class NeverWaits(TorchDispatchMode):
    """Raises where an operator would make the host wait."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in WAITING:
            raise AssertionError(f"the host waits for {name}")
        if name in ("index", "index_put_", "index_put") and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        ):
            raise AssertionError("the host waits for the number of true entries of a mask")
        return function(*args, **(kwargs or {}))


def test_never_waits_notices_waiting():
    values = torch.ones(3)
    for waits in (lambda: values.sum().item(), lambda: bool(values.any()), lambda: values.nonzero(), lambda: values[values > 0]):
        with NeverWaits(), pytest.raises(AssertionError, match="the host waits"):
            waits()


@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "two-headed"])
def test_step_never_waits_for_the_device(make_filter, make_data, resampler, adaptive, generator):
    pf = make_filter(resampler, adaptive=adaptive)
    particles, observations, actions = make_data(generator)
    observed, valid = torch.ones(3, 5, dtype=torch.bool), torch.ones(3, 5, dtype=torch.bool)
    observed[1, 2], valid[2, 4] = False, False
    belief = pf.init(particles)
    with NeverWaits():
        _, trajectory = pf(belief, observations, actions, observed=observed, valid=valid, truncate=3, generator=generator)
        loss = trajectory.posterior.log_prob(torch.zeros(3, 5, 1, 3, dtype=torch.float64)).sum()
        torch.autograd.grad(loss + trajectory.info.log_evidence.sum(), list(pf.parameters()), allow_unused=True)


@pytest.mark.compile
# While it traces, torch builds an autograd function in a way it warns of itself.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("source", ["global stream", "drawn beforehand"])
def test_step_compiles_without_a_break(make_filter, make_data, resampler, source, generator):
    pf = make_filter(resampler)
    particles, observations, actions = make_data(generator)
    observed = torch.tensor([True, False, True])
    belief, _ = pf.step(pf.init(particles), observations[:, 0], actions[:, 0], generator=generator)
    belief = trees.detach(belief)
    recorder = noise.Recorder(generator)
    expected = pf.step(belief, observations[:, 1], actions[:, 1], observed=observed, generator=recorder)
    torch._dynamo.reset()
    compiled = torch.compile(pf.step, fullgraph=True, backend="eager")
    if source == "global stream":
        found = compiled(belief, observations[:, 1], actions[:, 1], observed=observed)
        assert found[0].particles.shape == belief.particles.shape
        assert found[1].log_evidence.isfinite().all()
    else:
        found = compiled(belief, observations[:, 1], actions[:, 1], observed=observed, generator=recorder.noise)
        for left, right in zip(trees.leaves(found), trees.leaves(expected), strict=True):
            torch.testing.assert_close(left, right)
        (left, right) = (
            torch.autograd.grad(
                value[0].posterior.log_weights.square().sum() + value[0].particles.sum(), list(pf.parameters()), allow_unused=True
            )
            for value in (found, expected)
        )
        for ours, theirs in zip(left, right, strict=True):
            torch.testing.assert_close(ours, theirs)
