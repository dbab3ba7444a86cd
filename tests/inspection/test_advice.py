"""Advice follows from the numbers: what overflows or sinks stays wide, what fits is said to fit, lost updates want masters."""

from __future__ import annotations

from tests.inspection.samples import numbers
from truestep.inspection.advice import advise
from truestep.inspection.result import Movement
from truestep.inspection.spread import Spread


def actions(values: list[float], gradients: list[float], stuck: int = 0) -> dict[str, str]:
    rows = [numbers("a", "activations", Spread.of(values)), numbers("a", "activation gradients", Spread.of(gradients))]
    moved = Movement(parameter="a.weight", layer="a", elements=100, stuck={"fp32": 0, "bf16": stuck, "fp16": 0})
    return {each.action: each.text for each in advise(rows, rows[1:], [moved])}


def test_a_layer_within_the_range_fits_and_the_model_gets_a_scale() -> None:
    found = actions([1.0, 2.0], [2.0**-20, 2.0**-30])
    assert set(found) == {"scale", "fits"}


def test_activations_beyond_fp16_are_kept_wide() -> None:
    assert actions([1e6], [1.0])["keep wide"] == "keep it in float32 or bfloat16"


def test_gradients_too_far_apart_for_any_scale_are_kept_wide() -> None:
    assert "gradients" in actions([1.0], [2.0**-80, 1.0])["keep wide"]


def test_updates_get_masters_from_more_than_a_hundredth_lost() -> None:
    assert "master weights" not in actions([1.0], [1.0], stuck=1)
    assert "bf16" in actions([1.0], [1.0], stuck=2)["master weights"]
