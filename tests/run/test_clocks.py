"""Every second goes to exactly one dial."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from truestep.pages.comparison.clocks import SECONDS
from truestep.run.clocks import DIALS, PRIMARY, Clocks, Stopwatch, primary_seconds


def test_the_dials_are_the_fields_of_the_clocks() -> None:
    assert tuple(field.name for field in fields(Clocks)) == DIALS
    assert set(PRIMARY) <= set(DIALS)


def test_the_page_and_the_run_mean_the_same_seconds() -> None:
    clocks = {dial: 2.0**place for place, dial in enumerate(DIALS)}  # sums of powers of two tell every subset apart
    assert SECONDS.spent({"clocks": clocks}) == primary_seconds(clocks) == Clocks(**clocks).primary


@given(st.lists(st.tuples(st.sampled_from(DIALS), st.floats(0.0, 1e6)), max_size=30), st.floats(0.0, 1e6))
def test_the_dials_add_up_to_the_total(turns: list[tuple[str, float]], rest: float) -> None:
    clock = 100.0
    watch = Stopwatch(now=lambda: clock)
    for dial, seconds in turns:
        clock += seconds
        watch.turn(dial)  # type: ignore[arg-type]
    clock += rest
    # each of up to 31 differences and sums rounds at values below 32e6: 62 * 32e6 * 2^-53 is less than 1e-6
    assert abs(watch.read().total - (clock - 100.0)) < 1e-6


def test_a_second_goes_to_the_dial_that_ran_when_it_passed() -> None:
    times = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0])
    watch = Stopwatch(now=lambda: next(times))
    for dial in ("train", "eval", "train", "checkpoint", "waste", "train"):
        watch.turn(dial)  # type: ignore[arg-type]
    assert watch.read() == Clocks(init=1.0, train=2.0 + 4.0 + 7.0, eval=3.0, checkpoint=5.0, waste=6.0)


def test_the_primary_clock_is_train_and_waste() -> None:
    assert Clocks(init=1.0, train=2.0, eval=4.0, checkpoint=8.0, waste=16.0).primary == 18.0


def test_a_turn_waits_for_the_device_and_charges_the_wait_to_the_dial_before() -> None:
    trace: list[str] = []
    clock = 0.0

    def synchronize() -> None:
        nonlocal clock
        trace.append("synchronize")
        clock += 5.0

    def now() -> float:
        trace.append("read")
        return clock

    watch = Stopwatch(now=now, synchronize=synchronize)
    watch.turn("train")
    watch.turn("eval")
    assert trace == ["read", "synchronize", "read", "synchronize", "read"]
    assert watch.read() == Clocks(init=5.0, train=5.0)


def test_a_reading_does_not_wait_and_does_not_stop_the_watch() -> None:
    times = iter([0.0, 1.0, 2.0])
    watch = Stopwatch(now=lambda: next(times), synchronize=lambda: None)
    assert (watch.read().init, watch.read().init) == (1.0, 2.0)
