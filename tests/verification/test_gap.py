"""Gaps in numbers, and their absence where there is none."""

import math

import pytest
import torch

from truestep.verification.gap import BLOCK, _alone, _grouped, _together, _trio, gaps, whole


def gap(arrived, plain, reference):
    named = [{} if each is None else {"w": torch.tensor(each)} for each in (arrived, plain, reference)]
    return gaps(*named)[0]


def test_error_direction_and_length_are_told_apart():
    found = gap([0.0, 2.0], [1.0, 0.0], [1.0, 0.0])
    assert found.ratio == 2.0
    assert (found.cosine, found.signed) == pytest.approx((0.0, -1.0), abs=1e-15)
    assert found.relative == pytest.approx(math.sqrt(5))
    assert found.plain_relative == 0


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 1024.0])
def test_a_factor_is_a_signed_error_and_no_angle(factor):
    found = gap([3.0 * factor, 4.0 * factor], [3.0, 4.0], [3.0, 4.0])
    assert found.signed == pytest.approx(factor - 1)
    assert found.cosine == pytest.approx(1)


def test_nothing_is_divided_by_zero():
    zero = gap([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert (zero.relative, zero.cosine, zero.ratio, zero.signed) == (None, None, None, None)
    assert zero.error == 0
    assert zero.finite


def test_what_did_not_arrive_is_absent_and_its_error_is_all_of_it():
    found = gap(None, [3.0, 4.0], [3.0, 4.0])
    assert (found.arrived, found.ratio, found.cosine, found.relative) == (None, None, None, 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_told_and_has_no_numbers(bad):
    found = gap([bad, 0.0], [1.0, 0.0], [1.0, 0.0])
    assert not found.finite
    assert (found.relative, found.cosine, found.signed) == (None, None, None)
    assert not gap([1.0, 0.0], [1.0, 0.0], [bad, 0.0]).finite


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_on_both_sides_is_told_without_a_warning(bad):
    found = gap([bad], [bad], [bad])
    assert not found.finite
    assert not any(map(math.isfinite, (found.error, found.plain_error)))


def test_norms_hold_where_float32_squares_would_overflow_or_vanish():
    for size in (1e30, 1e-30):
        assert gap([2 * size], [size], [size]).relative == pytest.approx(1)


def test_all_parameters_together_are_one_long_one():
    torch.manual_seed(0)
    a, f, r = ({"x": torch.randn(3), "y": torch.randn(2, 2)} for _ in range(3))
    joined = [{"all": torch.cat([each["x"], each["y"].flatten()])} for each in (a, f, r)]
    one, other = whole(gaps(a, f, r)), gaps(*joined)[0]
    for name in ("elements", "reference", "arrived", "error", "plain_error", "plain", "inner"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_a_complex_gradient_is_two_real_ones():
    found = gap([3 + 4j], [3 + 4j], [3 - 4j])
    assert (found.reference, found.error) == (5.0, 8.0)


@pytest.mark.parametrize("error", [1e-9, 1e-3, 1.0, 2.0**20])
def test_direction_and_length_are_the_scalar_products_to_float64(error):
    torch.manual_seed(0)
    r = torch.randn(1000, dtype=torch.float64)
    a, f = (r + error * torch.randn(1000, dtype=torch.float64) for _ in range(2))
    found = gaps({"w": a}, {"w": f}, {"w": r})[0]
    for signed, given in ((found.signed, a), (found.plain_signed, f)):
        allowed = 8 * 2.0**-53 * float(1 + given @ given / (r @ r))  # a rounding of each square, of each norm and of their sums
        assert signed == pytest.approx(float((given - r) @ r / (r @ r)), abs=allowed)
        assert found.cosine == pytest.approx(float(a @ r / a.norm() / r.norm()), abs=allowed)


@pytest.mark.parametrize("ratio", [2.0**-60, 2.0**-35, 2.0**35, 2.0**60])
def test_lengths_too_far_apart_for_an_angle_have_none(ratio):
    r = torch.tensor([3.0, 4.0], dtype=torch.float64)
    found = gaps({"w": r * ratio}, {"w": r}, {"w": r})[0]
    assert found.ratio == ratio
    assert found.cosine == (pytest.approx(1.0, abs=2.0**-15) if 2.0**-36 < ratio < 2.0**36 else None)


def test_what_judges_in_float32_is_subtracted_in_float64():
    one, other = torch.tensor([1.0]), torch.tensor([2.0**-60])
    assert gaps({"w": one}, {"w": one}, {"w": other})[0].error == 1 - 2.0**-60


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2), (3, BLOCK), (BLOCK, 2)])
def test_lengths_in_blocks_are_those_of_the_whole(shape, dtype):
    torch.manual_seed(0)
    a, f = (torch.randn(shape).to(dtype) for _ in range(2))
    r = torch.randn(*shape[::-1], dtype=torch.float64).T if len(shape) == 2 else torch.randn(shape, dtype=torch.float64)
    found = gaps({"w": a}, {"w": f}, {"w": r})[0]
    wanted = [float(each.double().norm()) for each in (r, a, f, a.double() - r, f.double() - r)]
    lengths = (found.reference, found.arrived, found.plain, found.error, found.plain_error)
    assert lengths == pytest.approx(wanted, rel=1e-14)
    assert found.elements == r.numel()


def test_lengths_of_many_at_once_as_a_device_has_them_are_those_of_each_alone():
    torch.manual_seed(0)
    trios = [_trio(*(torch.randn(shape) for _ in range(3))) for shape in ((3,), (300, 300), (), (0,), (700, 700), (5, 2))]
    groups = list(_grouped(trios))
    assert 1 < len(groups) < len(trios)
    together = [lengths for group in groups for lengths in _together(group)]
    for one, trio in zip(together, trios, strict=True):
        assert one == pytest.approx(_alone(trio), rel=1e-13)


def test_many_at_once_are_as_each_alone_with_missing_empty_and_large_ones_among_them():
    torch.manual_seed(0)
    shapes = {"a": (3,), "none": (0,), "b": (2, 2), "large": (300, 300), "c": (), "d": (5,)}
    a, f, r = ({name: torch.randn(shape) for name, shape in shapes.items()} for _ in range(3))
    r = {name: value.double() for name, value in r.items()}
    del a["b"], f["d"], r["c"]
    together = {found.name: found for found in gaps(a, f, r)}
    assert set(together) == set(shapes)
    for name in shapes:
        alone = gaps(*({name: each[name]} if name in each else {} for each in (a, f, r)))[0]
        for field in ("elements", "reference", "arrived", "error", "plain_error", "plain"):
            found, wanted = getattr(together[name], field), getattr(alone, field)
            assert (found is None) == (wanted is None)
            assert wanted is None or found == pytest.approx(wanted, rel=1e-12), (name, field)
