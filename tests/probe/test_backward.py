"""Finding the step of a backward that made a gradient not finite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from truestep.probe.backward import first_fault

A, B = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient / 0


@pytest.mark.parametrize(
    ("loss", "parameter", "node"),
    [
        (lambda: A.sum() + B.sum(), None, None),
        (lambda: A.square().sum().sqrt() + B.sum(), 0, "SqrtBackward0"),
        (lambda: torch.where(B > 2, (B * 1000).exp(), B).sum() + A.sum(), 1, "ExpBackward0"),
        (lambda: A.sum() + (B * Own.apply(B * 2)).sum(), 1, "OwnBackward"),
        # a slope that is infinite at 0, of which relu leaves nothing
        (lambda: B.sum() + ((A - 1).relu().sqrt() * B).sum(), None, None),
    ],
)
def test_the_step_that_made_it_is_named(loss: Callable[[], Tensor], parameter: int | None, node: str | None) -> None:
    fault = first_fault(loss(), [A, B], 1.0)
    assert (None if fault is None else fault.parameter) == parameter
    assert (None if fault is None else fault.node.name()) == node


def test_parts_that_are_finite_and_whose_sum_is_not_are_told_at_what_adds_them() -> None:
    both = (B * 2).clone()
    fault = first_fault((both * 3e38 + both * 3e38).sum(), [B], 0.6)
    assert (fault.node.name(), fault.value) == ("CloneBackward0", "inf")
    assert first_fault((both * 3e38 + both * 3e38).sum(), [B], 0.1) is None


def test_no_hook_is_left_behind_and_the_graph_can_still_be_read() -> None:
    loss = A.square().sum().sqrt()
    first_fault(loss, [A], 1.0)
    assert loss.grad_fn._saved_result.item() == 0.0
    assert first_fault(loss, [A], 1.0).node is loss.grad_fn
