"""An update is made by all ranks or by none; where one decides by what it alone has seen, that decision is named."""

import textwrap

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.rank_local_decision import RULE


def told(telling, line=20, *, values=(1.0, 0.0), numbers=(1,), attempted=True):
    return telling.tell("Ranks", line, values=values, backwards=numbers, attempted=attempted)


def averaged(telling, *, scaler=0, **fields):
    """One attempt under DDP."""
    return telling.backward(10, ranks=2, synced=True, **fields).step(20, scaler=scaler)


def test_a_step_that_one_rank_passed_over_is_named_at_the_test_that_decided(tmp_path):
    script = tmp_path / "train.py"
    source = """
        def train(loader):
            for i, x in enumerate(loader):
                loss = forward(x)
                if (i + 1) % 2 == 0:
                    if spike(loss):
                        continue
                    optimizer.step()
        """
    script.write_text(textwrap.dedent(source).strip() + "\n")
    telling = told(averaged(Telling(script), scaler=None), at(7, path=str(script), function="train"), attempted=False)
    (finding,) = RULE(telling.story())
    assert (finding.severity, finding.line) == ("error", 5)
    assert finding.message.startswith("rank 1 skipped an update that rank 0 made")


def test_a_rank_that_never_came_to_the_attempt_hears_of_it_too():
    telling = averaged(Telling(), scaler=None)
    assert found(RULE, told(telling, 30, values=(0.0, 1.0), numbers=(2,), attempted=False)) == [("error", 30)]


def test_a_scaler_that_judges_by_its_own_gradients_is_named_at_its_step():
    telling = Telling().backward(10, ranks=2).tell("Reduced", 12).tell("Unscaled", 14).step(20)
    assert found(RULE, told(telling)) == [("error", 20)]


def test_an_overflow_that_is_looked_for_before_the_reduction_is_named_there():
    telling = Telling().backward(10, ranks=2).tell("Unscaled", 14).tell("Reduced", 16).step(20)
    assert [finding for finding in found(RULE, told(telling)) if finding[0] == "error"] == [("error", 14)]


def test_it_is_a_warning_before_any_overflow():
    assert found(RULE, Telling().backward(10, ranks=2).tell("Unscaled", 14).tell("Reduced", 16).step(20)) == [("warning", 14)]


@pytest.mark.parametrize(
    "telling",
    [
        averaged(Telling()),
        told(Telling().backward(10, ranks=2).step(20)),
        told(averaged(Telling(), unsynced=(0,))),
        Telling().backward(10, ranks=2).tell("Unscaled", 14).tell("Reduced", 16).tell("Reduced", 17, what="number").step(20),
        Telling().backward(10, ranks=2).tell("Unscaled", 14, scale=1.0).tell("Reduced", 16).step(20),
        Telling().backward(10, ranks=1).tell("Unscaled", 14).tell("Reduced", 16).step(20),
    ],
    ids=[
        "all do the same",
        "ranks with nothing in common",
        "gradients that are not one to begin with",
        "an overflow that is told to all",
        "a scaler that is off",
        "one rank",
    ],
)
def test_decisions_that_are_common_or_meant_to_be_apart_are_right(telling):
    assert found(RULE, telling) == []
