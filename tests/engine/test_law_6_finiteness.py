"""Law 6: finiteness is judged on elements, scaled and unscaled, and norms are right from the smallest to the largest."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import truestep
from tests.engine.loops import judged, same
from truestep.engine.gradients import BLOCK, UNDIVIDED, block_norm, exact_norm, multiply

FLOAT32_MAX = torch.finfo(torch.float32).max
U = 2.0**-24


def float64_norm(tensors: list[Tensor]) -> float:
    return math.hypot(*[float(t.double().norm()) for t in tensors])


@settings(deadline=None, max_examples=100)
@given(
    sizes=st.lists(
        st.sampled_from([1, 7, BLOCK, BLOCK + 1, UNDIVIDED, UNDIVIDED + 1, UNDIVIDED + 27, 5 * BLOCK]), min_size=1, max_size=4
    ),
    scale=st.sampled_from([1e-44, 1e-38, 1e-25, 1e-20, 1e-6, 1.0, 1e6, 1e18, 3e19, 1e37]),
    seed=st.integers(0, 1000),
)
def test_a_norm_is_right_at_every_magnitude(sizes: list[int], scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    tensors = [(torch.rand(n) + 0.5) * scale for n in sizes]
    verdict = judged(tensors, 1.0)
    if float64_norm(tensors) <= FLOAT32_MAX * 1e3:  # beyond float32 a norm is still a float64 number
        assert verdict.norm is not None
    # Squares are positive, so BLOCK roundings of a square's sum in the worst order are BLOCK * u of it, half of that of its root.
    assert verdict.norm == pytest.approx(float64_norm(tensors), rel=BLOCK * U / 2 + 2 * U)


def test_a_norm_at_thirty_million_elements_is_within_a_block_bound_where_float32_is_not() -> None:
    gradient = [torch.full((30_000_000,), 1e-3)]
    true = math.sqrt(30_000_000) * float(gradient[0][0].double())
    assert block_norm(gradient) == pytest.approx(true, rel=1e-5)
    assert abs(float(torch._foreach_norm(gradient)[0]) / true - 1) > 1e-3


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed", "strided"])
def test_a_norm_does_not_depend_on_the_layout(layout: str) -> None:
    gradient = torch.randn(8, 16, 9, 9)
    if layout == "channels last":
        gradient = gradient.to(memory_format=torch.channels_last)
    elif layout == "transposed":
        gradient = gradient.transpose(0, 2)
    elif layout == "strided":
        gradient = torch.randn(16, 16, 9, 9)[::2]
    assert block_norm([gradient]) == pytest.approx(float64_norm([gradient]), rel=1e-5)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 1, BLOCK, UNDIVIDED, UNDIVIDED + 26])
def test_one_bad_element_anywhere_is_found(bad: float, place: int) -> None:
    gradient = torch.zeros(UNDIVIDED + 27)  # a prime: rows, and a rest
    gradient[place] = bad
    verdict = judged([torch.ones(3), gradient], 1.0)
    assert verdict.norm is None
    assert not verdict.unscaling_overflows


def test_finite_elements_whose_norm_overflows_float32_are_finite() -> None:
    gradient = [torch.tensor([3e38, -3e38, 3e38])]
    verdict = judged(gradient, 1.0)
    assert verdict.norm is not None
    assert verdict.norm == pytest.approx(float64_norm(gradient), rel=1e-12)


def test_elements_that_overflow_when_unscaled_are_not_finite() -> None:
    largest = torch.tensor([FLOAT32_MAX / 2])
    assert judged([largest], 2.0).norm is not None
    verdict = judged([torch.nextafter(largest, torch.tensor([math.inf]))], 2.0)
    assert verdict.norm is None
    assert verdict.unscaling_overflows


@settings(deadline=None, max_examples=200)
@given(
    elements=st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=6),
    exponent=st.integers(-20, 20),
)
def test_the_verdict_is_what_the_unscaled_elements_are(elements: list[float], exponent: int) -> None:
    gradient, unit = torch.tensor(elements, dtype=torch.float32), 2.0**exponent
    finite = bool((gradient.isfinite() & (gradient * unit).isfinite()).all())
    verdict = judged([gradient], unit)
    assert (verdict.norm is not None) is finite
    if finite:
        assert verdict.norm == pytest.approx(float64_norm([gradient]) * unit, rel=1e-5)


def test_an_all_zero_gradient_is_finite_and_has_norm_zero() -> None:
    assert judged([torch.zeros(5), torch.zeros(UNDIVIDED + 1)], 1.0).norm == 0.0


def test_an_empty_parameter_is_no_obstacle() -> None:
    model = nn.Linear(3, 1)
    model.register_parameter("empty", nn.Parameter(torch.zeros(0)))
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: (model(x) * 1e25).mean() + model.empty.sum(),
        check_weight=False,
    )
    assert update([torch.ones(2, 3)]).completed


@pytest.mark.parametrize("factor", [2.0**-10, 0.3, 2.0**-127, 2.0**-130 * 0.7, 2.0**20])
def test_multiplying_keeps_the_bits_that_float32_has(factor: float) -> None:
    before = torch.tensor([1.0, -3.0, 2.0**100, 2.0**127 * 1.5]) if factor < 1 else torch.tensor([1.0, -3.0, 2.0**100])
    gradient = [before.clone()]
    multiply(gradient, factor)
    exact = before.double() * factor
    normal = exact.abs() >= torch.finfo(torch.float32).tiny
    # One rounding of the product and one of a factor that is no float32 number.
    assert bool(((gradient[0].double() - exact).abs() <= 2 * U * exact.abs())[normal].all())


def test_a_norm_read_back_in_float64_equals_the_exact_one() -> None:
    gradient = [torch.randn(1000), torch.randn(BLOCK * 2 + 1)]
    assert exact_norm(gradient) == pytest.approx(float64_norm(gradient), rel=1e-14)


def test_gradients_finite_as_scaled_and_infinite_as_unscaled_are_skipped_with_their_own_reason() -> None:
    model = nn.Linear(2, 1, bias=False)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: (model(x) * 1e38).mean() * 100.0,
        scale=truestep.LossScale.static(2.0**-10),
        check_weight=False,
    )
    before = model.weight.detach().clone()
    outcome = update([torch.ones(2, 2)])
    assert outcome.skip is not None
    assert outcome.skip.reason is truestep.Reason.UNSCALE
    assert outcome.skip.place == "weight"
    assert same([before], [model.weight.detach()])
