"""What the formats explain: derived from how it was computed, silent where they explain, loud where they do not."""

import math
import random
from dataclasses import replace

import pytest

from truestep.verification.criterion import FLOAT32_UNIT, LIMIT, SAFETY, Computed, Level, derivation, judged
from truestep.verification.gap import Gap

FP16 = Computed(
    unit=2.0**-11,
    format="float16",
    operations=16,
    smallest=2.0**-24,
    scale=2.0**16,
    microbatches=4,
    kinks=0.0,
    judged_by_float64=True,
)
FP32 = replace(FP16, unit=FLOAT32_UNIT, format="float32", smallest=2.0**-149, scale=1.0)


def gap(error, *, reference=1.0, plain=1e-7, arrived=1.0, elements=100):
    return Gap(
        name="w",
        elements=elements,
        reference=reference,
        arrived=arrived,
        error=error,
        plain_error=plain,
        plain=reference,
    )


def verdict(one, computed=FP16, *, level=None, whole=1.0):
    return judged(one, level or Level.of([one]), computed, whole=whole)


@pytest.mark.parametrize("computed", [FP16, FP32])
def test_the_tolerance_is_the_formula(computed):
    explained = SAFETY * (computed.unit * 4 + computed.unit / FLOAT32_UNIT * 1e-7)
    floor = computed.smallest / 2 / computed.scale * math.sqrt(100 * 4 * 16)
    found = verdict(gap(0.0), computed)
    assert found.tolerance == pytest.approx(explained + floor)
    assert verdict(gap(0.999 * found.tolerance), computed).within is True
    assert verdict(gap(1.001 * found.tolerance), computed).within is False


def test_a_kink_is_added_as_it_is():
    smooth, kinked = verdict(gap(0.0)), verdict(gap(0.0), replace(FP16, kinks=0.1))
    assert kinked.tolerance - smooth.tolerance == pytest.approx(0.1)


@pytest.mark.parametrize("error", [0.5, 1.0])
@pytest.mark.parametrize("kinks", [0.0, 0.1, 0.3, 0.35])
def test_a_factor_of_two_is_found_wherever_anything_is_judged(error, kinks):
    found = verdict(gap(error), replace(FP16, kinks=kinks))
    assert found.within is False


def test_what_the_format_explains_almost_whole_is_not_judged_and_says_so():
    found = verdict(gap(1.0), replace(FP16, kinks=LIMIT))
    assert found.within is None
    assert "float16 explains up to" in found.words
    assert found.excess == 0


def test_a_gradient_that_float32_cannot_tell_from_0_is_not_judged():
    found = verdict(gap(1e-6, reference=1e-9, plain=1e-9))
    assert found.within is None
    assert "0 but for rounding" in found.words


def test_but_a_large_one_in_its_place_is_found():
    assert verdict(gap(0.9, reference=1e-9, plain=1e-9)).within is False
    assert verdict(gap(0.9, reference=0.0, plain=0.0)).within is False


def test_zero_for_zero_is_equal():
    found = verdict(gap(0.0, reference=0.0, plain=0.0, arrived=0.0))
    assert (found.within, found.words, found.excess) == (True, "0 in both", 0)


def test_one_window_that_cancels_is_measured_by_what_the_others_are_like():
    small = gap(0.004, reference=0.1, plain=1e-9)
    others = [gap(0.0), gap(0.0)]
    assert verdict(small).within is False
    assert verdict(small, level=Level.of([small, *others])).within is True


def test_what_is_not_finite_is_not_judged_where_it_is_right_and_beyond_where_one_of_the_two_is_finite():
    assert verdict(gap(math.nan, arrived=math.nan)).within is False
    assert verdict(gap(math.nan, reference=math.inf)).within is False
    assert verdict(gap(math.nan, reference=math.inf, arrived=math.inf)).within is None


def test_what_did_not_arrive_is_beyond_and_says_so_even_below_the_floor():
    lost = replace(FP16, scale=2.0**-20)
    assert verdict(gap(1.0, arrived=None)).words == "nothing arrived"
    found = verdict(gap(1.0, arrived=0.0), lost)
    assert (found.within, found.words) == (False, "0 arrived")


def test_without_float64_float32s_own_error_is_the_worst_that_its_roundings_can_do():
    one = verdict(gap(0.0, plain=0.0), replace(FP32, judged_by_float64=False))
    assert one.tolerance == pytest.approx(SAFETY * (FLOAT32_UNIT * 4 + FLOAT32_UNIT * 16), rel=1e-6)


def test_the_derivation_prints_its_numbers():
    text = "\n".join(derivation(replace(FP16, kinks=0.05)))
    for words in ("2^-11", "D = 16", "kinks", "5 %", "underflow", "4.55e-13"):
        assert words.replace(" ", "\N{NO-BREAK SPACE}") in text or words in text
    assert "underflow: below" not in "\n".join(derivation(FP32))


def test_the_derivation_divides_by_the_plain_full_batchs_own_roundoff():
    assert "(u / 2^-24) e)" in "".join(derivation(FP16))
    narrow = "".join(derivation(replace(FP16, plain_unit=2.0**-8)))
    assert "e / 2^-8," in narrow
    assert "(u / 2^-8) e)" in narrow
    assert "2^-24" not in narrow


def test_an_attempt_is_explained_as_each_of_its_gaps_is():
    draw = random.Random(0)
    seen = set()
    for _ in range(4000):
        computed = replace(draw.choice([FP16, FP32]), operations=draw.choice([1, 400, 1e6, 1e12]), kinks=draw.choice([0.0, 0.5]))
        one = gap(
            draw.choice([0.0, 1e-6, 1e-3, 0.39, 0.41, 1.0, 7.0, math.inf, math.nan]),
            reference=draw.choice([0.0, 1e-9, 1.0, math.inf, math.nan]),
            plain=draw.choice([0.0, 1e-7, 1.0]),
            arrived=draw.choice([None, 0.0, 1.0, math.inf]),
        )
        if one.arrived in (None, 0.0):
            one = replace(one, error=one.reference)
        if not one.finite and math.isfinite(one.error):
            continue  # a difference from what is not finite is not finite either
        judged_so = verdict(one, computed).within is not False
        assert computed.explain([one], whole=1.0) == judged_so
        seen.add(judged_so)
    assert seen == {True, False}
