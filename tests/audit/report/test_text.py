"""Findings as lines: the shape of an error, each thing that is known on a line of its own, and a summary."""

import pytest

from truestep.audit.finding import Finding, Rule
from truestep.audit.report.text import ending, explained, lines, summary
from truestep.audit.site import Place

FULL = Finding(
    rule="clip-before-unscale",
    severity="error",
    path="train.py",
    line=34,
    message="the clip saw gradients that carry the loss scale 65536",
    evidence=("norm 21,000 in scaled units", "limit 1"),
    damage="the update was 86,500 times too small",
    why="the limit is meant for original units",
    fix="call scaler.unscale_(optimizer) before it",
    times=24,
    callers=(Place("train.py", 60, "fit"), Place("main.py", 5)),
    library=Place("/lib/clip.py", 9, "clip"),
    proof="unscaled first: the update is 1.00 times the right one",
)


def test_a_finding_says_place_severity_rule_and_message_then_all_that_is_known():
    assert list(lines(FULL)) == [
        "train.py:34: error: clip-before-unscale: the clip saw gradients that carry the loss scale 65536",
        "  norm 21,000 in scaled units",
        "  limit 1",
        "  seen 24 times",
        "  damage: the update was 86,500 times too small",
        "  why: the limit is meant for original units",
        "  fix: call scaler.unscale_(optimizer) before it",
        "  proof: unscaled first: the update is 1.00 times the right one",
        "  called from: train.py:60 in fit",
        "  called from: main.py:5 in <module>",
        "  library: /lib/clip.py:9",
    ]


def test_what_is_not_known_has_no_line():
    finding = Finding(rule="scaler-disabled", severity="note", path=None, line=None, message="no scale")
    assert list(lines(finding)) == ["no line of the script: note: scaler-disabled: no scale"]


def test_words_of_several_lines_stay_indented_so_that_findings_stay_apart():
    finding = Finding(rule="a", severity="error", path="t.py", line=1, message="raised\nValueError: b", fix="write\nthis")
    assert list(lines(finding)) == ["t.py:1: error: a: raised", "  ValueError: b", "  fix: write", "    this"]


def severities(*words):
    return [Finding(rule="a", severity=word, path=None, line=None, message="") for word in words]


@pytest.mark.parametrize(
    ("findings", "passed", "words"),
    [
        (severities(), {}, "0 errors, 0 warnings, 0 notes"),
        (severities("error", "note", "note"), {}, "1 error, 0 warnings, 2 notes"),
        (severities("warning"), {"known": 3, "ignored": 1}, "0 errors, 1 warning, 0 notes; 3 known, 1 ignored"),
        (severities(), {"not_judged": ["a (b)", "c (d)"]}, "0 errors, 0 warnings, 0 notes; not judged: a (b), c (d)"),
    ],
)
def test_the_summary_counts_and_tells_what_was_passed_over_and_not_judged(findings, passed, words):
    assert summary(findings, **passed) == words


def test_an_explained_rule_shows_both_loops_as_they_are_written():
    rule = Rule(id="a", title="b", why="c", bad="for x in y:\n    f(x)\n", good="g()", sources=("s1", "s2"), check=list)
    assert list(explained(rule)) == [
        *("a: b", "", "why:", "  c", "", "bad:", "  for x in y:", "      f(x)"),
        *("", "good:", "  g()", "", "sources:", "  s1", "  s2"),
    ]


def test_a_rule_without_sources_has_none_to_show():
    rule = Rule(id="a", title="b", why="c", bad="d", good="e", sources=(), check=list)
    assert "sources:" not in list(explained(rule))


def test_a_script_that_a_signal_ended_names_the_signal():
    assert ending("t.py", script_exit=-11, traceback=None, is_explained=False) == "t.py was ended by SIGSEGV; no finding says why"


def test_a_signal_without_a_name_is_told_by_its_number():
    assert ending("t.py", script_exit=-40, traceback=None, is_explained=True) == "t.py was ended by signal 40"
