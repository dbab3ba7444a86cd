"""Naming the first thing that is not finite."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from truestep.probe.finiteness import Culprit, first_input, first_module, first_parameter, not_finite

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 2.0], None),
        ([], None),
        ([1.0, INF], "inf"),
        ([-INF, 1.0], "-inf"),
        ([NAN], "nan"),
        ([NAN, -INF, INF], "inf"),
        ([NAN, -INF], "-inf"),
    ],
)
def test_an_infinity_is_named_before_a_nan(values: list[float], found: str | None, dtype: torch.dtype) -> None:
    assert not_finite(torch.tensor(values, dtype=dtype)) == found


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_integers_are_finite(dtype: torch.dtype) -> None:
    assert not_finite(torch.ones(3, dtype=dtype)) is None


def test_both_parts_of_a_complex_number_count() -> None:
    assert not_finite(torch.complex(torch.ones(2), torch.ones(2))) is None
    assert not_finite(torch.complex(torch.ones(1), torch.tensor([INF]))) == "inf"
    assert not_finite(torch.complex(torch.tensor([NAN]), torch.ones(1)).conj()) == "nan"


@pytest.mark.parametrize(("dtype", "value"), [(torch.float8_e4m3fn, "nan"), (torch.float8_e5m2, "inf")])
def test_eight_bit_numbers_are_judged(dtype: torch.dtype, value: str) -> None:
    assert not_finite(torch.tensor([1.0, float(value)]).to(dtype)) == value
    assert not_finite(torch.ones(2).to(dtype)) is None


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    "laid_out",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: x.to_sparse_csc(),
        lambda x: torch.nested.nested_tensor([x[0], x[1, :1]], layout=torch.jagged),
        lambda x: torch.nested.nested_tensor([x[0], x[1, :1]]),
        lambda x: x.t(),
        lambda x: x.requires_grad_(),
    ],
)
def test_every_layout_is_judged(laid_out) -> None:
    assert not_finite(laid_out(torch.tensor([[1.0, NAN], [2.0, 3.0]]))) == "nan"
    assert not_finite(laid_out(torch.tensor([[1.0, 4.0], [2.0, 3.0]]))) is None


def test_what_has_no_elements_here_cannot_be_judged() -> None:
    assert not_finite(torch.ones(3, device="meta")) is None


@dataclass
class Sample:
    x: Tensor
    y: object = None


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        (torch.tensor([NAN]), ""),
        ({"ids": torch.ones(2).long(), "x": torch.tensor([1.0, NAN])}, "['x']"),
        (Sample(torch.ones(2), (1, torch.tensor(NAN))), ".y[1]"),
        ([np.array([1.0, NAN], dtype=np.float32)], "[0]"),
        (("text", np.array(["a"]), np.array([1]), torch.tensor(NAN)), "[3]"),
    ],
)
def test_the_first_input_is_named_by_its_path(tree: object, path: str) -> None:
    assert first_input(tree) == (path, "nan")


def test_a_mask_of_minus_infinity_is_passed_and_what_follows_it_is_seen() -> None:
    mask = torch.full((3, 3), -INF).triu(1)
    assert first_input((mask, torch.ones(2))) is None
    assert first_input((mask, torch.tensor([INF]))) == ("[1]", "inf")
    assert first_input((torch.tensor([-INF, NAN]),)) == ("[0]", "-inf")
    assert first_input(mask.requires_grad_()) == ("", "-inf")


def test_the_first_parameter_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert first_parameter(model) is None
    with torch.no_grad():
        model[1].bias[0] = -INF
    assert first_parameter(model) == ("1.bias", "-inf")


def test_a_frozen_mask_among_the_parameters_is_passed() -> None:
    model = nn.Module()
    model.mask = nn.Parameter(torch.tensor([0.0, -INF]), requires_grad=False)
    assert first_parameter(model) is None
    model.frozen = nn.Parameter(torch.tensor([0.0, NAN]), requires_grad=False)
    assert first_parameter(model) == ("frozen", "nan")


class Give(nn.Module):
    """Puts out what it is told to, whatever comes in."""

    def __init__(self, output: object) -> None:
        super().__init__()
        self.output = output

    def forward(self, *inputs: object, **named: object) -> object:
        return self.output


class Run(nn.Module):
    """Runs `steps(self, x)` over its children, which have names."""

    def __init__(self, steps, **children: nn.Module) -> None:
        super().__init__()
        self.steps = steps
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: object) -> object:
        return self.steps(self, x)


class Overflow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 1e38 * 1e38


def culprit(model: nn.Module, x: object) -> Culprit | None:
    return first_module(model, lambda: model(x))


GRAPH = torch.ones(2, requires_grad=True)


def test_nobody_is_named_where_all_is_finite() -> None:
    assert culprit(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)) is None


def test_the_innermost_module_that_began_it_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), Overflow(), nn.Softmax(-1)), nn.Linear(2, 2))
    found = culprit(model, torch.ones(1, 2))
    assert (found.name, found.kind) == ("1.1", "Overflow")
    assert found.value in ("inf", "-inf")


def test_a_module_that_is_given_a_bad_input_is_not_named() -> None:
    assert culprit(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.tensor([[NAN, 1.0]])) is None


def test_the_model_itself_is_named_where_its_own_arithmetic_began_it() -> None:
    assert culprit(Run(lambda self, x: x / 0), GRAPH) == Culprit("the model", "Run", "inf")


@pytest.mark.parametrize(
    "output",
    [
        (GRAPH, {"hidden": [GRAPH * INF]}),
        OrderedDict(loss=GRAPH * INF),
        Sample(GRAPH, (None, GRAPH * INF)),
        [GRAPH.long(), GRAPH.detach() * INF],
        GRAPH.to_sparse() * INF,
    ],
)
def test_an_output_may_be_nested(output: object) -> None:
    assert culprit(Run(lambda self, x: self.give(x), give=Give(output)), GRAPH).name == "give"


def test_keyword_inputs_are_inputs() -> None:
    model = Run(lambda self, x: self.give(x=x * INF), give=Give(GRAPH * INF))
    assert culprit(model, GRAPH) == Culprit("the model", "Run", "inf")


def test_a_module_given_a_mask_can_be_named() -> None:
    mask = torch.full((2, 2), -INF).triu(1)
    model = Run(lambda self, x: self.give(x, mask=mask), give=Give(GRAPH * NAN))
    assert culprit(model, GRAPH) == Culprit("give", "Give", "nan")


def test_a_module_that_makes_a_mask_is_not_named() -> None:
    mask = torch.full((2, 2), -INF).triu(1)
    model = Run(lambda self, x: (self.mask(), self.give(x)), mask=Give(mask), give=Give(GRAPH * NAN))
    assert culprit(model, GRAPH).name == "give"


def test_masked_scores_are_named_only_where_nothing_worse_is() -> None:
    masked = GRAPH.masked_fill(torch.tensor([True, False]), -INF)
    model = Run(lambda self, x: (self.masked(x), self.give(x)), masked=Give(masked), give=Give(GRAPH * NAN))
    assert culprit(model, GRAPH).name == "give"
    assert culprit(Run(lambda self, x: self.masked(x), masked=Give(masked)), GRAPH).name == "masked"


def test_an_overflow_to_minus_infinity_is_named_and_not_the_nan_that_follows_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Overflow(), nn.LayerNorm(2))
    with torch.no_grad():
        model[0].weight.fill_(-1)
        model[0].bias.zero_()
    assert culprit(model, torch.ones(1, 2)) == Culprit("1", "Overflow", "-inf")


def test_a_module_used_twice_is_named_by_its_one_name() -> None:
    tied = Overflow()
    model = Run(lambda self, x: self.second(self.first(x * 0) + x), first=tied, second=tied)
    assert culprit(model, GRAPH) == Culprit("first", "Overflow", "inf")


def test_a_module_that_writes_into_its_input_can_be_named() -> None:
    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.div_(0)

    model = Run(lambda self, x: self.write(x * 1), write=InPlace())
    assert culprit(model, GRAPH) == Culprit("write", "InPlace", "inf")


def test_no_hook_is_left_behind() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Overflow())
    with pytest.raises(RuntimeError):
        culprit(model, torch.ones(1, 3))
    culprit(model, torch.ones(1, 2))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_modules_that_take_no_hook_are_passed() -> None:
    model = nn.Sequential(torch.jit.script(nn.Tanh()), Overflow())
    assert culprit(model, torch.ones(1, 2)).name == "1"


def test_a_compiled_module_is_run_as_it_is_written() -> None:
    traced = []

    def backend(graph, examples):
        traced.append(graph)
        return graph.forward

    model = torch.compile(nn.Sequential(nn.Linear(2, 2), Overflow()), backend=backend)
    assert culprit(model, torch.ones(1, 2)).name == "_orig_mod.1"
    assert traced == []
