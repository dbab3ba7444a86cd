"""Scripts that train through a library: its loop hides calls, wraps optimizers, and runs the user's code from within.

The quick profile runs a few, of each way in and of most libraries, some of which take seconds to import; the full one runs all.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.audit.harness import examine, fault
from tests.profile import FULL

FOLDER = Path(__file__).with_name("corpus") / "libraries"

KINDS = {
    "accelerate_clip_every_microbatch": "clip-inside-window",
    "accelerate_loss_divided_twice": "accumulation-weight",
    "fabric_accumulation_not_divided": "accumulation-weight",
    "fabric_zero_grad_every_microbatch": "zero-grad-placement",
    "lightning_manual_accumulation_sum": "accumulation-weight",
    "lightning_scheduler_every_microbatch": "scheduler-clock",
    "transformers_bert_accumulation": "accumulation-weight",
    "transformers_compute_loss_ignores_item_count": "accumulation-weight",
    "transformers_ema_on_substeps": "ema-clock",
}

ELSEWHERE: dict[str, str] = {}
"""Scripts whose mistake is named at a line of the user's that is not the marked one, and which; each has to stay there, or be
taken off the list."""

LIBRARIES = {"accelerate": "accelerate", "fabric": "lightning_fabric", "lightning": "lightning", "transformers": "transformers"}


QUICK = {
    "libraries": {"accelerate_clip_every_microbatch", "transformers_bert_accumulation"},
    "fixed": {"accelerate_clip_every_microbatch"},
    "correct": {"accelerate_canonical_accumulate", "fabric_short_window"},
}
"""By folder."""


def scripts(folder):
    """Each script of a folder as a parameter, skipped where its library is not installed."""
    return [named(file) for file in sorted(folder.glob("*.py")) if FULL or file.stem in QUICK[folder.name]]


def named(file):
    """A parameter with the script's name."""
    library = LIBRARIES[file.stem.partition("_")[0]]
    absent = pytest.mark.skipif(find_spec(library) is None, reason=f"{library} is not installed")
    return pytest.param(file, id=file.stem, marks=absent)


def judged(file):
    """What was found in a script, no part of the audit having failed."""
    seen = examine(file)
    assert seen.failure is None
    assert seen.ended is None
    assert not [each for each in seen.coverage["not_judged"] if "failed" in each["what"]]
    return seen


@pytest.mark.parametrize("file", scripts(FOLDER))
def test_a_mistake_beside_a_library_is_found_at_the_users_own_line(file):
    findings = [each for each in judged(file).findings if each.severity != "note"]
    assert {each.rule for each in findings} == {KINDS[file.stem]}
    places = {(Path(each.path).name, each.line) for each in findings}
    assert (fault(file) in places) != (file.stem in ELSEWHERE)
    assert all(Path(each.path) == file for each in findings)


@pytest.mark.parametrize("file", scripts(FOLDER / "fixed") + scripts(FOLDER / "correct"))
def test_correct_loops_of_libraries_raise_neither_error_nor_warning_and_print_the_same(file):
    seen = judged(file)
    assert [finding for finding in seen.findings if finding.severity != "note"] == []
    alone = examine(file, watched=False)
    assert (results(seen.output), seen.digest) == (results(alone.output), alone.digest)


def results(output):
    """The lines of the script's own; a library's may tell how long it took."""
    return [line for line in output.splitlines() if line.startswith("RESULT")]
