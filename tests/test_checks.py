"""Every check lets the right value pass and explains the wrong one; the second half of each message is pinned."""

import numpy as np
import pytest
import torch

from mdpf import checks


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 3), "a float32 tensor of shape [2, 3]"),
        (torch.zeros((), dtype=torch.int64), "a int64 tensor of shape []"),
        (0.5, "0.5"),
        (None, "None"),
        ("word", "'word'"),
        ([1, 2], "list"),
        (np.zeros(2), "ndarray"),
    ],
)
def test_describe_names_what_came(value, text):
    assert checks.describe(value) == text


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (5, 2, 4, 3), (0, 3)])
def test_check_tensor_returns_what_fits(shape, dtype):
    value = torch.zeros(shape, dtype=dtype)
    assert checks.check_tensor("call", value, ["particle", 3]) is value


@pytest.mark.parametrize("shape", [(), (3,), (4, 2), (3, 4)])
def test_check_tensor_refuses_other_shapes(shape):
    with pytest.raises(ValueError, match=r"call needs a tensor of shape \[\*batch, particle, 3\], got .* Add an axis.") as caught:
        checks.check_tensor("call", torch.zeros(shape), ["particle", 3], "Add an axis.")
    assert f"got a float32 tensor of shape {list(shape)}. " in str(caught.value)


def test_check_tensor_refuses_what_is_no_tensor():
    with pytest.raises(TypeError, match=r"got ndarray. Convert it with torch.from_numpy."):
        checks.check_tensor("call", np.zeros((4, 3)), ["particle", 3], "Convert it with torch.from_numpy.")


def test_check_tensor_refuses_integers_and_says_what_to_do():
    with pytest.raises(TypeError, match=r"got a int64 tensor of shape \[4, 3\]. Convert it with .float\(\)."):
        checks.check_tensor("call", torch.zeros(4, 3, dtype=torch.int64), ["particle", 3])


def test_check_batch_compares_leading_axes():
    checks.check_batch("call", torch.zeros(2, 3, 4), "actions", (2, 3))
    checks.check_batch("call", torch.zeros(4), "actions", ())
    with pytest.raises(
        ValueError, match=r"leading axes \[3\], got a float32 tensor of shape \[2, 3\]. Every input of one call shares"
    ):
        checks.check_batch("call", torch.zeros(2, 3), "actions", (3,))
    with pytest.raises(ValueError, match=r"got a float32 tensor of shape \[2\]. Repeat it."):
        checks.check_batch("call", torch.zeros(2), "actions", (2, 3), "Repeat it.")


def test_check_same_kind_compares_dtype_and_device():
    checks.check_same_kind("call", left=torch.zeros(2), right=torch.zeros(3))
    with pytest.raises(
        TypeError, match=r"left \(torch.float32\), got torch.float64. Convert one of them with .to\(torch.float32\)."
    ):
        checks.check_same_kind("call", left=torch.zeros(2), right=torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"got meta. Move it with .to\('cpu'\)."):
        checks.check_same_kind("call", left=torch.zeros(2), right=torch.zeros(2, device="meta"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_check_finite_names_the_first_bad_place(bad):
    value = torch.zeros(2, 3)
    checks.check_finite("call", value, "states")
    value[1, 2] = bad
    with pytest.raises(
        ValueError, match=r"got .* at index \[1, 2\] of shape \[2, 3\]. Remove or mask such values first."
    ) as caught:
        checks.check_finite("call", value, "states")
    assert f"finite states, got {bad} at" in str(caught.value)


def test_check_finite_accepts_nothing_at_all():
    checks.check_finite("call", torch.zeros(0, 3), "states")


def test_check_positive_refuses_what_is_not():
    checks.check_positive("call", 0.1, "scale")
    checks.check_positive("call", 3, "scale")
    for bad in (0, -1.0, float("nan"), float("inf"), "1", None):
        with pytest.raises(ValueError, match=r"call needs a positive scale, got .* Use a share."):
            checks.check_positive("call", bad, "scale", advice="Use a share.")


def test_check_count_refuses_what_is_no_count():
    checks.check_count("call", 1, "num_particles")
    checks.check_count("call", 0, "num_steps", at_least=0)
    for bad in (0, -2, 2.0, True, "3", None):
        with pytest.raises(ValueError, match=r"num_particles to be an integer of at least 1, got "):
            checks.check_count("call", bad, "num_particles")


def test_own_error_and_warning_are_of_the_usual_kinds():
    assert issubclass(checks.DegenerateWeightsError, ValueError)
    assert issubclass(checks.MdpfWarning, UserWarning)
