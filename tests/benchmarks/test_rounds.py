"""Contenders meet in every round, and what is said of them is a ratio of the same round."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.rounds import FEWEST, Spread, excesses, ratios, seconds_of, taking_turns


def test_every_contender_runs_once_in_each_round_and_warm_rounds_do_not_count() -> None:
    ticks = {name: itertools.count() for name in "abc"}
    spent = taking_turns({name: lambda each=each: float(next(each)) for name, each in ticks.items()}, rounds=5, warm=2)
    assert spent == {name: [2.0, 3.0, 4.0, 5.0, 6.0] for name in "abc"}


def test_the_order_differs_from_round_to_round_and_is_the_same_for_a_seed() -> None:
    def order(seed: int) -> list[str]:
        heard: list[str] = []
        taking_turns({name: lambda name=name: heard.append(name) or 1.0 for name in "abcd"}, rounds=8, warm=0, seed=seed)
        return heard

    rounds = {tuple(order(0)[k : k + 4]) for k in range(0, 32, 4)}
    assert len(rounds) > 4
    assert order(0) == order(0) != order(1)


def test_no_round_begins_once_the_time_is_up_but_three_are_made() -> None:
    assert len(taking_turns({"a": lambda: 1.0}, rounds=1000, most_seconds=0.0)["a"]) == FEWEST


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that is twice as slow in some rounds changes nothing."""
    slow = [1.0, 2.0, 1.0, 2.0, 4.0]
    found = ratios([1.1 * each for each in slow], slow)
    assert found.low == pytest.approx(found.high) == pytest.approx(1.1)
    above = excesses([1.5 * each for each in slow], slow)
    assert above.median == pytest.approx(0.5)


@pytest.mark.parametrize("count", [1, 2, 9, 100])
def test_the_bounds_are_numpys_quantiles(count: int) -> None:
    values = list(np.random.default_rng(count).normal(size=count))
    found = Spread.of(values)
    wanted = np.quantile(values, [0.5, 0.05, 0.95])
    assert [found.median, found.low, found.high] == pytest.approx(list(wanted))


def test_a_spread_is_told_with_both_bounds() -> None:
    assert Spread(median=0.5, low=-0.25, high=1.0).text(2, signed=True) == "+0.50 [-0.25, +1.00]"


def test_seconds_are_those_of_the_clock() -> None:
    looks = iter([1.0, 3.5])
    assert seconds_of(lambda: None, lambda: next(looks)) == 2.5
    assert 0.0 <= seconds_of(lambda: None) < math.inf
