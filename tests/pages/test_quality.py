"""The figure of validation quality tells a candidate that misses the target from one that meets it, however near both end."""

from __future__ import annotations

from typing import Any

import pytest

from truestep.pages.comparison.quality import quality_trend
from truestep.pages.look.candidates import looks
from truestep.pages.look.figure import Figure


def drawn(target: float, **courses: list[float]) -> Figure:
    """The figure of one run each, evaluated every 64 examples."""
    records: list[dict[str, Any]] = [
        {"candidate": name, "evaluations": [{"examples": 64 * k, "quality": quality} for k, quality in enumerate(course)]}
        for name, course in courses.items()
    ]
    direction = "higher" if next(iter(courses.values()))[0] < target else "lower"
    return quality_trend({"quality": "accuracy", "direction": direction, "target": target}, records, looks(courses))


def heights(figure: Figure) -> tuple[float, float]:
    """The ends of the axis of the panel near the target."""
    assert [panel.label for panel in figure.panels] == ["The whole course", "Near the target"]
    low, high = figure.panels[1].plot["layout"]["yaxis"]["range"]
    return low, high


@pytest.mark.parametrize("end", [0.95, 0.955, 0.96, 0.97])
def test_what_ends_near_the_target_lies_apart_from_it_in_a_panel_of_its_own(end: float) -> None:
    low, high = heights(drawn(0.96, fp32=[0.1, 0.8, 0.961], fp16=[0.1, 0.8, end]))
    assert low < min(end, 0.96)
    assert high > max(end, 0.961)
    assert abs(end - 0.96) / (high - low) >= 0.1 or end == 0.96  # of 0.9, the whole course, it is a hundredth


def test_the_whole_course_is_drawn_beside_it() -> None:
    whole, near = drawn(0.96, fp32=[0.1, 0.8, 0.961], fp16=[0.1, 0.8, 0.95]).panels
    assert "range" not in whole.plot["layout"]["yaxis"]
    assert whole.plot["data"] == near.plot["data"]


@pytest.mark.parametrize("ends", [(1.02, 1.06), (0.86, 0.9)])
def test_the_target_is_in_the_panel_where_all_end_on_one_side_of_it(ends: tuple[float, float]) -> None:
    low, high = heights(drawn(0.96, fp32=[0.1, 0.8, ends[0]], fp16=[0.1, 0.8, ends[1]]))
    assert low < min(*ends, 0.96)
    assert high > max(*ends, 0.96)


def test_what_ends_far_from_the_target_does_not_stretch_the_panel_and_is_named() -> None:
    without = drawn(2.0, fp32=[5.0, 3.0, 1.99], bf16=[5.0, 3.0, 2.05])
    figure = drawn(2.0, fp32=[5.0, 3.0, 1.99], bf16=[5.0, 3.0, 2.05], fp16=[5.0, 900.0, 3e4])
    assert heights(figure) == heights(without)
    assert figure.notes[-1] == "Ends outside of what is near the target: fp16 (30,000)."
    assert len(without.notes) == 1


@pytest.mark.parametrize("course", [[0.1, 0.4, 0.7], [0.96], [0.96, 0.96]])
def test_where_no_candidate_comes_near_the_target_or_all_begin_at_it_one_panel_tells_all(course: list[float]) -> None:
    (panel,) = drawn(0.96, fp32=course).panels
    assert panel.label is None


def test_a_panel_is_no_tighter_than_a_twentieth_of_the_course() -> None:
    low, high = heights(drawn(1.0, fp32=[0.0, 0.5, 1.0]))
    assert high - low == pytest.approx(0.05, rel=1e-12)
