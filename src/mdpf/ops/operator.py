"""How an implementation enters autograd and the compiler: as one opaque operator with a fake and a backward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Forward = Callable[[Tensor, Tensor, Tensor, Tensor, str], Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor]
Backward = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, str, bool], Gradients]


def register(name: str, forward: Forward, backward: Backward) -> Forward:
    """Make an operator ``mdpf::name`` of an implementation.

    Args:
        name: The operator's name; its backward is ``mdpf::name_backward``.
        forward: ``x [b, m, d], locs [b, n, d], log_weights [b, n], parameters [b, d], kinds`` to the log-density ``[b, m]``,
            relative to the kernel's peak.
        backward: The gradient of the outcome, the outcome, the inputs of ``forward`` and whether ``x`` wants a gradient, to the
            gradients of the four tensors; that of ``x`` is empty if it is not wanted.
    """
    evaluate = torch.library.custom_op(f"mdpf::{name}", forward, mutates_args=())
    differentiate = torch.library.custom_op(f"mdpf::{name}_backward", backward, mutates_args=())

    @evaluate.register_fake
    def _(x: Tensor, locs: Tensor, log_weights: Tensor, parameters: Tensor, kinds: str) -> Tensor:
        return x.new_empty(x.shape[:-1])

    @differentiate.register_fake
    def _(
        grad: Tensor,
        outcome: Tensor,
        x: Tensor,
        locs: Tensor,
        log_weights: Tensor,
        parameters: Tensor,
        kinds: str,
        with_x: bool,
    ) -> Gradients:
        fresh = (x.new_empty(each.shape) for each in (locs, log_weights, parameters))
        return (x.new_empty(x.shape if with_x else 0), *fresh)  # type: ignore[return-value]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
        *tensors, ctx.kinds = inputs
        ctx.save_for_backward(output, *tensors)

    def pull_back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        with_x = ctx.needs_input_grad[0]
        to_x, *others = differentiate(grad, *ctx.saved_tensors, ctx.kinds, with_x)
        return to_x if with_x else None, *others, None

    evaluate.register_autograd(pull_back, setup_context=setup_context)
    return evaluate
