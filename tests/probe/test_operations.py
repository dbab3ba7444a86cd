"""Which operator of which layer ran in which dtype, as autocast really had it; and nothing of the looking stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truestep.probe.operations import Operation, operations

BF16, FP32 = torch.bfloat16, torch.float32


def seen(*, enabled: bool) -> dict[tuple[str, str, str], Operation]:
    """The operators of a small classifier, by layer, name and phase."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
    with operations(model) as found:
        with torch.autocast("cpu", BF16, enabled=enabled):
            loss = nn.functional.cross_entropy(model(torch.ones(5, 3)), torch.zeros(5, dtype=torch.int64))
        loss.backward()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return {(each.layer, each.name, each.phase): each for each in found.calls}


def test_products_run_low_and_the_loss_in_float32_under_autocast() -> None:
    found = seen(enabled=True)
    product, loss = found["0", "aten.addmm", "forward"], found["", "aten._log_softmax", "forward"]
    assert (product.inputs, product.result, product.cast) == ((BF16,), BF16, (FP32,))
    assert (loss.inputs, loss.result, loss.cast) == ((FP32,), FP32, (BF16,))


def test_nothing_is_cast_without_autocast() -> None:
    found = seen(enabled=False)
    assert all(each.inputs == (FP32,) and each.cast == () for each in found.values())


def test_a_backward_belongs_to_the_layer_whose_forward_made_it() -> None:
    found = seen(enabled=True)
    assert found["2", "aten.gelu_backward", "backward"].layer == "2"
    products = {layer for layer, name, phase in found if name == "aten.mm" and phase == "backward"}
    assert products == {"0", "3"}
    assert {layer for layer, name, _ in found if name == "aten.nll_loss_backward"} == {""}


def test_a_layer_inside_a_layer_is_named_by_the_innermost() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    with operations(model) as found:
        model(torch.ones(1, 2))
    assert [each.layer for each in found.calls if each.name == "aten.addmm"] == ["0.0", "1"]


def test_a_forward_that_raises_leaves_no_layer_open_and_no_hook() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), operations(model) as found:
        model(torch.ones(1, 3))
    assert found._layers == [""]
    assert not model[0]._forward_hooks
