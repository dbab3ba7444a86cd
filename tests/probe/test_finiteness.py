"""Naming the first thing that is not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from truestep.probe.finiteness import first_input, first_parameter, first_place, has_nan, not_finite, tensors

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


@pytest.mark.parametrize(("values", "found"), [([INF, 1.0], False), ([-INF, NAN], True), ([0.0], False)])
def test_a_nan_is_told_from_an_infinity(values: list[float], found: bool) -> None:
    assert has_nan(torch.tensor(values)) is found
    assert has_nan(torch.tensor(values).to(torch.complex64)) is found


@pytest.mark.parametrize(
    ("tensor", "place"),
    [
        (torch.tensor([[1.0, INF], [NAN, 1.0]]), "[0, 1]"),
        (torch.tensor(NAN), None),
        (torch.ones(2), None),
        (torch.ones(2, dtype=torch.long), None),
        (torch.tensor([1.0, NAN]).to(torch.float16), "[1]"),
        (torch.tensor([1.0, NAN]).to_sparse(), None),
    ],
)
def test_the_first_element_is_placed(tensor: Tensor, place: str | None) -> None:
    assert first_place(tensor) == place


def test_arrays_of_numbers_come_as_tensors_that_share_their_memory() -> None:
    array, tensor = np.zeros(2, dtype=np.float32), torch.ones(1)
    found = dict(tensors({"a": array, "b": [tensor, np.array(["text"])]}))
    assert list(found) == ["['a']", "['b'][0]"]
    array[1] = 5.0
    assert found["['a']"].tolist() == [0.0, 5.0]
    assert found["['b'][0]"] is tensor


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
