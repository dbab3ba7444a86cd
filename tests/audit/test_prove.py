"""A proof compares two runs that began alike; where none was made, coverage says why."""

from dataclasses import replace

import pytest

from tests.audit.rules.making import Telling
from truestep.audit import prove as proving
from truestep.audit.finding import Finding
from truestep.audit.process import Audited
from truestep.audit.story import Totals

WRONG = Finding(rule="clip-before-unscale", severity="error", path="train.py", line=3, message="m")
OTHER = replace(WRONG, rule="resume")


def run(*losses, findings=(WRONG,), loads=(), script_exit=0):
    """A run of one process whose attempts had these losses, after it had loaded something."""
    telling = Telling(totals=Totals(attempts={0: len(losses)}, completed={0: len(losses)}))
    for each in loads:
        telling.tell(each)
    for loss in losses:
        telling.backward(loss=loss).step()
    return Audited(
        findings=findings,
        coverage={"not_judged": []},
        script="train.py",
        script_exit=script_exit,
        interrupted=None,
        traceback=None,
        stories=(telling.story(),),
    )


@pytest.fixture
def proved(monkeypatch):
    """What a proof makes of two runs: the proofs, and why there is none."""

    def prove(first, again=None):
        def audit(*_, **__):
            assert again is not None, "nothing may be run"
            return again

        monkeypatch.setattr(proving, "audit", audit)
        made = proving.prove(first, ["train.py"])
        assert first.coverage == {"not_judged": []}
        return [each.proof for each in made.findings], [each["why"] for each in made.coverage["not_judged"]]

    return prove


def test_two_runs_that_began_alike_are_a_proof_of_each_finding_about_gradients(proved):
    proofs, why = proved(run(2.0, 1.9, 1.8, findings=(WRONG, OTHER)), run(2.0, 1.0))
    words = "2 updates with the right gradient took the loss from 2 to 1; as the script stands, from 2 to 1.9"
    assert (proofs, why) == ([words, None], [])


def test_a_run_that_starts_from_a_file_of_its_own_each_time_is_a_proof(proved):
    proofs, why = proved(run(2.0, 1.9, loads=["Loaded"]), run(2.0, 1.0, loads=["Loaded"]))
    assert (proofs[0] is not None, why) == (True, [])


@pytest.mark.parametrize(
    ("first", "again", "words"),
    [
        (run(2.0, 1.9, findings=()), None, "nothing was found"),
        (run(2.0, 1.9, findings=(OTHER,)), None, "no finding is about the gradient"),
        (run(2.0, 1.9, findings=(replace(WRONG, severity="note"),)), None, "no finding is about the gradient"),
        (run(2.0), None, "of the run as it stands"),
        (run(2.0, 1.9), run(), "made 0 attempts"),
        (run(2.0, 1.9), run(2.0, script_exit=1), "made 1 attempt, and it ended with exit code 1"),
        (run(2.0, 1.9), run(loads=["Loaded", "Restored"]), "0 attempts, went on from what the first one had saved"),
        (run(2.0, 1.9), run(1.5, 1.4, loads=["Loaded"]), "2 attempts, went on from what the first one had saved"),
        (run(2.0, 1.9, loads=["Loaded"]), run(1.5, 1.4, loads=["Loaded"]), "began at a loss of 1.5, the first at one of 2"),
        (run(2.0, 1.9), run(None, None), "of the second run"),
    ],
    ids=["nothing", "other", "note", "short", "none", "failed", "finished", "resumed", "overwritten", "no loss"],
)
def test_where_no_proof_is_made_it_is_said_why(proved, first, again, words):
    proofs, (why,) = proved(first, again)
    assert words in why
    assert not any(proofs)
