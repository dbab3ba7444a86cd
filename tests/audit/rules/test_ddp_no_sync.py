"""The last backward before a step makes the ranks' gradients one; where it does not, the expression that decided so is named."""

import textwrap

import pytest

from tests.audit.rules.making import Telling, at, found
from truestep.audit.events import Judged
from truestep.audit.rules.ddp_no_sync import RULE

TOLD = at(5)


def window(telling, synced, *, told=TOLD, step=True, ranks=2, held=(0,)):
    """Backwards of a DDP, each with or without synchronisation, and their step."""
    for asked in synced:
        unsynced = () if asked else held
        telling.backward(10, synced=asked, ranks=ranks, unsynced=unsynced, unsynced_at=None if asked else told)
    return telling.step(20, last=len(synced)) if step else telling


def apart(telling, numbers, line=20):
    return telling.tell("Ranks", line, what="gradient", values=(1.0, 2.0), backwards=numbers)


def test_a_last_backward_without_synchronisation_is_named_where_it_was_told_so():
    assert found(RULE, window(Telling(), [False, False])) == [("error", 5)]


def test_the_norms_of_the_ranks_are_the_evidence_and_no_second_finding():
    (finding,) = RULE(apart(window(Telling(), [False]), (1,)).story())
    assert finding.evidence == ("norms of the gradient by rank: 1, 2",)


@pytest.mark.parametrize(
    "telling",
    [
        window(Telling(), [False, True]),
        window(Telling(), [False], ranks=1),
        window(Telling(), [False], held=(1,)),
        window(Telling(), [False], step=False).tell("Reduced", 12).step(20),
    ],
    ids=["the last one synchronised", "one rank", "the DDP of another optimizer", "reduced by hand afterwards"],
)
def test_gradients_that_are_made_one_are_right(telling):
    assert found(RULE, telling) == []


def test_averaging_the_weights_between_steps_instead_is_a_note():
    telling = window(Telling(), [False]).tell("Reduced", 25, what="weights", optimizers=())
    assert set(found(RULE, window(telling, [False]))) == {("note", 5)}


def test_weights_that_are_only_compared_after_the_last_step_are_no_average():
    telling = window(Telling(), [False]).tell("Reduced", 25, what="weights", optimizers=())
    assert found(RULE, telling) == [("error", 5)]


def test_a_reduction_before_the_last_backward_is_named_beside_the_backward():
    reduction = at(3, (9, "train"), function="average")
    telling = Telling().backward(at(8, function="train"), ranks=2).tell("Reduced", reduction)
    telling.backward(at(10, function="train"), ranks=2).step(20, last=2)
    assert found(RULE, apart(telling, (1, 2))) == [("error", 9)]


def test_a_reduction_after_the_step_that_used_the_gradients_is_named():
    telling = Telling().backward(ranks=2).step().tell("Reduced", 25).backward(ranks=2).step()
    (finding,) = RULE(apart(telling, (2,)).story())
    assert (finding.line, "after the step" in finding.message) == (25, True)


def test_a_reduction_of_a_part_is_named():
    telling = Telling().backward(ranks=2).tell("Reduced", 15).step()
    (finding,) = RULE(apart(telling, (1,)).story())
    assert (finding.severity, finding.line, "not all" in finding.message) == ("error", 15, True)


def test_a_forward_around_ddp_is_named_at_the_forward():
    telling = Telling().backward(10, synced=False, ranks=2, unsynced=(0,), forward=at(9)).step()
    (finding,) = RULE(apart(telling, (1,)).story())
    assert (finding.line, "did not go through DDP" in finding.message) == (9, True)


def test_gradients_that_differ_for_no_known_reason_are_named_at_the_backward():
    assert found(RULE, apart(window(Telling(), [True]), (1,))) == [("error", 10)]


def test_what_a_rank_adds_to_reduced_gradients_itself_may_be_meant():
    judged = Judged(expected=1.0, observed=1.0, cosine=1.0, clipped=1.0)
    telling = Telling().backward(10, ranks=2).tell("Reduced", 11).tell("Edited", 13, operation="add", cosine=0.8)
    assert found(RULE, apart(telling.step(20, judged=judged), (1,))) == [("warning", 13)]


def test_other_differences_are_other_rules_affair():
    assert found(RULE, window(Telling(), [True]).tell("Ranks", 20, what="completed", backwards=(1,))) == []


DECIDERS = {
    "a plain no_sync": """
        def train(model, window):
            with model.no_sync():  # told, decides
                pass
        """,
    "an expression in the with": """
        def train(model, window):
            for i, x in enumerate(window):
                with nullcontext() if i % 2 == 0 else model.no_sync():  # told, decides
                    pass
        """,
    "a flag before it": """
        def train(model, window):
            for i, x in enumerate(window):
                last = i % 2 == 0  # decides
                with nullcontext() if last else model.no_sync():  # told
                    pass
        """,
    "a context made before": """
        def train(model, window):
            for i, x in enumerate(window):
                context = nullcontext if i % 2 == 0 else model.no_sync  # decides
                with context():  # told
                    pass
        """,
    "an if around it": """
        def train(model, window):
            for i, x in enumerate(window):
                with ExitStack() as stack:
                    if i % 2:  # decides
                        stack.enter_context(model.no_sync())  # told
        """,
    "the else of an if": """
        def train(model, window):
            for i, x in enumerate(window):
                if i % 2 == 0:  # decides
                    pass
                else:
                    with model.no_sync():  # told
                        pass
        """,
    "a function that gives the context": """
        def context(model, i):
            if i % 2:  # decides
                return model.no_sync()
            return nullcontext()
        def train(model, window):
            for i, x in enumerate(window):
                with context(model, i):  # told
                    pass
        """,
    "the flag of the module": """
        def train(model, window):
            for i, x in enumerate(window):
                model.require_backward_grad_sync = i == len(window)  # told, decides
        """,
    "the flag of the module, by name": """
        def train(model, window):
            for i, x in enumerate(window):
                last = i == len(window)  # decides
                model.require_backward_grad_sync = last  # told
        """,
    "the flag of the module, under a test": """
        def train(model, window):
            for i, x in enumerate(window):
                if i != len(window):  # decides
                    model.require_backward_grad_sync = False  # told
        """,
}


@pytest.mark.parametrize("source", DECIDERS.values(), ids=DECIDERS)
def test_the_expression_that_decides_is_named(source, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(source).strip() + "\n")
    lines = script.read_text().splitlines()
    told, decides = (next(number for number, line in enumerate(lines, 1) if word in line) for word in ("told", "decides"))
    telling = window(Telling(script), [False], told=at(told, path=str(script), function="train"))
    assert found(RULE, telling) == [("error", decides)]
