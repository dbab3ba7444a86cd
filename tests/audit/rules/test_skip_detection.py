"""A test that cannot see a skip is named; one that asks whether the scale fell is not."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.skip_detection import RULE


def run(tmp_path, text, outcomes=(False, True), *, updates=((1024.0, 512.0), (512.0, 512.0)), ticks=True, fused=False):
    """The lines of `scaler.step`, `scaler.update` and `.tick()` of a script, told as if they had run."""
    path = tmp_path / "train.py"
    path.write_text(text)
    lines = {
        word: number
        for number, line in enumerate(text.splitlines(), 1)
        for word in ("scaler.step", "update()", "sched.step")
        if word in line
    }
    telling = Telling(path).tell("ScalerMade")
    for completed, (before, after) in zip(outcomes, updates, strict=True):
        step = lines["scaler.step"]
        telling.backward().tell("StepCalled", step).step(step, completed=completed, fused=fused)
        telling.tell("Updated", lines["update()"], before=before, after=after)
        if ticks and "sched.step" in lines:
            telling.tell("Ticked", lines["sched.step"], completed=int(completed))
    return found(RULE, telling)


LOOP = "for x in data:\n    {0}\n    scaler.step(opt)\n    scaler.update()\n    if {1}:\n        sched.step()\n"


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("loss = f(x)", "math.isfinite(loss)"),
        ("loss = f(x)", "not torch.isnan(loss).any()"),
        ("s = scaler.get_scale()", "scaler.get_scale() <= s"),
    ],
)
def test_a_guard_that_let_a_tick_through_on_a_skip_is_named_at_the_tick(tmp_path, before, test):
    assert run(tmp_path, LOOP.format(before, test)) == [("warning", 6), ("note", 5)]


@pytest.mark.parametrize(
    ("before", "test"), [("n = len(calls)", "len(calls) > n"), ("n = opt.count", "opt.count != n"), ("pass", "watch.seen()")]
)
def test_a_count_of_a_fused_optimizers_steps_sees_no_skip(tmp_path, before, test):
    assert run(tmp_path, LOOP.format(before, test), fused=True) == [("warning", 6), ("note", 5)]


@pytest.mark.parametrize("test", ["i % 4 == 0", "sched is not None", "i >= warmup"])
def test_a_test_that_asks_of_no_skip_is_none_of_these(tmp_path, test):
    assert run(tmp_path, LOOP.format("pass", test), fused=True) == []


def test_a_comparison_with_the_scale_before_is_right(tmp_path):
    text = LOOP.format("s = scaler.get_scale()", "scaler.get_scale() >= s")
    assert run(tmp_path, text, ticks=False) == []


@pytest.mark.parametrize(("after", "severity"), [(2048.0, "warning"), (1024.0, "note")])
def test_an_equality_of_scales_is_wrong_where_the_scale_grew(tmp_path, after, severity):
    text = LOOP.format("s = scaler.get_scale()", "scaler.get_scale() == s")
    assert run(tmp_path, text, (True,), updates=((1024.0, after),)) == [(severity, 5), ("note", 6)]


def test_a_scale_that_is_read_after_update_is_named_where_it_is_read(tmp_path):
    text = "for x in data:\n    scaler.step(opt)\n    scaler.update()\n    s = scaler.get_scale()\n"
    text += "    if scaler.get_scale() < s:\n        n += 1\n"
    assert run(tmp_path, text) == [("warning", 4), ("note", 5)]


def test_a_scale_carried_from_round_to_round_is_right(tmp_path):
    text = (
        "last = scaler.get_scale()\nfor x in data:\n    scaler.step(opt)\n    scaler.update()\n    now = scaler.get_scale()\n"
        "    if now < last:\n        n += 1\n    last = now\n"
    )
    assert run(tmp_path, text) == []


def test_a_use_of_what_the_step_returned_is_named_at_the_test(tmp_path):
    text = "for x in data:\n    ret = scaler.step(opt)\n    scaler.update()\n"
    text += "    if ret is None:\n        n += 1\n    else:\n        sched.step()\n"
    assert run(tmp_path, text, ticks=False) == [("warning", 4), ("note", 2)]


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("if scaler.step(opt) is not None:\n        n += 1", 2),
        ("ok = scaler.step(opt) is not None", 2),
        ("out = scaler.step(opt)\n    ok = out is not None", 3),
    ],
)
def test_such_a_use_is_seen_in_any_form(tmp_path, use, line):
    found = run(tmp_path, f"for x in data:\n    {use}\n    scaler.update()\n", ticks=False)
    assert found[0] == ("warning", line)
    assert found[1:] == ([("note", 2)] if line != 2 else [])


@pytest.mark.parametrize("around", ["if ready:\n        scaler.step(opt)", "losses.append(scaler.step(opt))"])
def test_a_step_under_a_test_of_something_else_is_right(tmp_path, around):
    assert run(tmp_path, f"for x in data:\n    {around}\n    scaler.update()\n", ticks=False) == []


def test_a_result_that_no_test_uses_is_right(tmp_path):
    text = "for x in data:\n    ret = scaler.step(opt)\n    scaler.update()\n    if x is None:\n        n += 1\n"
    assert run(tmp_path, text) == []
