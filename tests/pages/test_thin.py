"""Thinning loses no extreme and no marked point."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from truestep.pages.look.thin import changes, kept, medians

values = st.lists(st.floats(width=32), min_size=1, max_size=300).map(lambda found: np.array(found, dtype=np.float64))


@given(values, st.integers(2, 60), st.data())
def test_extremes_ends_and_marked_points_stay(series: np.ndarray, points: int, data: st.DataObject) -> None:
    marked = data.draw(st.sets(st.integers(0, len(series) - 1)))
    indices = kept(series, points=points, always=marked)
    assert list(indices) == sorted(set(indices))
    assert {0, len(series) - 1} | marked <= set(indices.tolist())
    assert len(indices) <= max(points + 2 + len(marked), 0)
    finite = series[np.isfinite(series)]
    if len(finite):
        drawn = series[indices]
        drawn = drawn[np.isfinite(drawn)]
        assert (drawn.min(), drawn.max()) == (finite.min(), finite.max())


@given(values, st.integers(2, 60))
def test_every_left_out_value_lies_between_drawn_values_of_its_stretch(series: np.ndarray, points: int) -> None:
    indices = set(kept(series, points=points).tolist())
    edges = np.linspace(0, len(series), points // 2 + 1).astype(int)
    for start, end in itertools.pairwise(edges):
        drawn = [series[k] for k in range(start, end) if k in indices and np.isfinite(series[k])]
        for k in range(start, end):
            if np.isfinite(series[k]):
                assert min(drawn) <= series[k] <= max(drawn)


@given(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=60))
def test_a_step_curve_is_the_same_from_its_corners(steps: list[float]) -> None:
    series = np.array(steps)
    indices = changes(series)
    places = np.searchsorted(indices, np.arange(len(series)), side="right") - 1
    assert (series[indices][places] == series).all()


@given(values, st.integers(1, 20))
def test_medians_are_those_of_each_stretch(series: np.ndarray, stretches: int) -> None:
    positions = np.arange(1.0, len(series) + 1)
    edges = np.linspace(0, len(series), stretches + 1)
    found = medians(positions, series, edges)
    for k in range(stretches):
        inside = (positions <= edges[k + 1]) & ((positions >= edges[k]) if k == 0 else (positions > edges[k]))
        own = series[inside & np.isfinite(series)]
        assert np.isnan(found[k]) if not len(own) else found[k] == np.median(own)
