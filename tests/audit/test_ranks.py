"""Scripts of several ranks: real processes that reduce over gloo, judged together.

In the quick profile every second script is run; the full one runs all.
"""

import signal
from pathlib import Path

import pytest

from tests.audit.harness import fault
from tests.audit.together import examine_together
from tests.profile import FULL
from truestep.audit.process import audit

CORPUS = Path(__file__).with_name("corpus")
KINDS = ("ddp-no-sync", "ddp-loss-factor", "rank-local-decision")
CONTROLS = ("allreduce_sum_of_shares", "ddp_no_sync_done_right")


def scripts(*folders):
    """Each script of these folders as a parameter; the modules beside them are their own affair."""
    files = [file for folder in folders for file in sorted(folder.glob("*.py")) if not file.stem.endswith("_lib")]
    return [pytest.param(file, id=file.stem) for file in (files if FULL else files[::4])]


def faults(file):
    """What was found in a script but notes, no part of the audit having failed."""
    seen = examine_together(file)
    assert seen.failure is None
    assert seen.output.startswith("RESULT")
    assert not [each for each in seen.coverage["not_judged"] if "failed" in each["what"]]
    return {(each.rule, Path(each.path).name, each.line) for each in seen.findings if each.severity != "note"}


@pytest.mark.parametrize("file", scripts(*(CORPUS / kind for kind in KINDS)))
def test_a_mistake_of_ranks_is_found_at_its_line_and_nothing_else_is(file):
    assert faults(file) == {(file.parent.name, *fault(file))}


@pytest.mark.parametrize("file", scripts(*(CORPUS / kind / "fixed" for kind in KINDS)))
def test_repaired_ranks_raise_neither_error_nor_warning(file):
    assert faults(file) == set()


@pytest.mark.parametrize("name", CONTROLS)
def test_ranks_that_are_right_in_an_unusual_style_raise_neither(name):
    assert faults(CORPUS / "controls" / f"{name}.py") == set()


def test_spawned_ranks_give_one_report():
    script = CORPUS / "ddp-no-sync" / "trainer_wraps_whole_window.py"
    audited = audit([str(script)], stdout_to_stderr=True)
    if audited.script_exit == -signal.SIGABRT:  # gloo does so now and then as a process ends, whatever the script does
        audited = audit([str(script)], stdout_to_stderr=True)
    assert (audited.script_exit, audited.coverage["processes"]) == (0, 2)
    (finding,) = [each for each in audited.findings if each.severity != "note"]
    assert (finding.rule, Path(finding.path).name, finding.line) == ("ddp-no-sync", *fault(script))
    assert finding.evidence[0].startswith("norms of the gradient by rank")
