"""Parameters with fewer batch axes than the data they serve."""

from torch import Tensor

from mdpf.checks import describe


def align(call: str, name: str, value: Tensor, core: int, batch: int) -> Tensor:
    """Insert axes behind the batch axes of ``value`` until it has ``batch`` of them.

    Parameters are left-aligned: their batch axes are the leading ones of the data (a run axis comes first), so a parameter of shape
    [R, d, d] serves data of shape [R, B, T, d], and one of shape [d, d] serves any data.

    Args:
        call: Who asks; the first words of the message.
        name: What ``value`` is called there.
        value: A parameter of shape [*some, *core axes].
        core: How many trailing axes belong to the parameter itself.
        batch: How many batch axes the data has.

    Example:
        >>> import torch
        >>> align("f", "scale", torch.ones(7, 2), core=1, batch=3).shape
        torch.Size([7, 1, 1, 2])
    """
    own = value.ndim - core
    if not 0 <= own <= batch:
        raise ValueError(
            f"{call} needs {name} with {core} axes of its own and at most {batch} batch axes, got {describe(value)}. "
            "Parameters may not have more batch axes than the observations; expand the observations first."
        )
    return value.reshape(*value.shape[:own], *(1,) * (batch - own), *value.shape[own:])
