"""A schedule that advances without an update is named; one that counts epochs or only updates is not."""

import textwrap

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.scheduler_clock import RULE


def attempts(telling, outcomes, *, tick, lr=lambda index: 0.1):
    telling.tell("OptimizerMade").tell("ScalerMade")
    for index, completed in enumerate(outcomes):
        telling.backward().step(completed=completed, lr=lr(index)).tell("Updated", 21)
        tick(telling, index, completed)
    return telling


def ticking(telling, index, completed):
    telling.tell("Ticked", 30, number=index + 1, attempts=1, completed=int(completed))


def test_a_tick_after_a_skipped_attempt_is_named():
    assert found(RULE, attempts(Telling(), [False, True, True], tick=ticking)) == [("warning", 30)]


def test_a_schedule_without_skips_is_right():
    assert found(RULE, attempts(Telling(), [True, True, True], tick=ticking)) == []


def test_a_schedule_that_waits_for_updates_is_right():
    def guarded(telling, index, completed):
        if completed:
            telling.tell("Ticked", 30, number=index, attempts=2 if index == 1 else 1, completed=1)

    assert found(RULE, attempts(Telling(), [False, True, True], tick=guarded)) == []


def test_an_epoch_that_was_skipped_whole_is_no_fault_of_an_epoch_clock():
    telling = Telling()
    for number, completed in enumerate((0, 4, 4), 1):
        telling.tell("Ticked", 30, number=number, attempts=4, completed=completed)
    assert found(RULE, telling) == []


def test_a_schedule_that_is_told_a_metric_has_a_clock_of_its_own():
    telling = Telling().tell("Ticked", 30, attempts=1, completed=0, metric=True)
    assert found(RULE, telling) == []


def test_ticks_on_every_microbatch_are_named():
    telling = Telling()
    for number in range(1, 9):
        stepped = int(number % 4 == 0)
        telling.backward().tell("Ticked", 31, number=number, attempts=stepped, completed=stepped)
    assert found(RULE, telling) == [("warning", 31)]


def test_a_first_tick_in_front_of_the_first_step_is_right():
    telling = Telling().backward().tell("Ticked", 31, attempts=0, completed=0).step()
    telling.backward().tell("Ticked", 31, number=2).step()
    assert found(RULE, telling) == []


SCRIPT = """
    it = 0
    while it < 9:
        rate = schedule(it)
        for group in optimizer.param_groups:
            group["lr"] = rate
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        it += 1
    """


def test_a_rate_set_by_hand_that_moves_over_a_skip_is_named_where_it_is_computed(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    telling = Telling(path).tell("OptimizerMade")
    for index, completed in enumerate((True, False, True, True)):
        telling.backward(7).step(8, completed=completed, lr=0.1 / (index + 1)).tell("Updated", 9)
    assert found(RULE, telling) == [("warning", 4)]


def test_a_rate_that_moves_while_every_attempt_is_skipped_is_named():
    telling = attempts(Telling(), [False, False, False], tick=lambda *_: None, lr=lambda index: 0.1 / (index + 1))
    assert found(RULE, telling) == [("warning", 20)]


def test_a_rate_set_by_hand_that_stays_over_a_skip_is_right():
    rates = (0.1, 0.1, 0.05, 0.03)
    telling = attempts(Telling(), [False, True, True, True], tick=lambda *_: None, lr=lambda index: rates[index])
    assert found(RULE, telling) == []


def test_a_rate_that_moves_once_an_epoch_may_move_at_a_skip():
    rates = (0.1, 0.1, 0.05, 0.05, 0.05)
    telling = attempts(Telling(), [True, False, True, True, True], tick=lambda *_: None, lr=lambda index: rates[index])
    assert found(RULE, telling) == []


def test_nothing_is_said_where_a_test_of_the_skip_is_the_fault(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("scaler.step(optimizer)\nif math.isfinite(loss):\n    scheduler.step()\n")
    telling = Telling(path).backward().step(1, completed=False).tell("Ticked", 3, completed=0)
    assert found(RULE, telling) == []
