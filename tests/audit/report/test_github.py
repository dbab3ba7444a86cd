"""Workflow commands: one line whatever the finding says, with the escapes that GitHub documents."""

from pathlib import Path

import pytest

from truestep.audit.finding import Finding
from truestep.audit.report.github import annotation


def of(**fields):
    given = {"rule": "a-rule", "severity": "error", "path": "train.py", "line": 3, "message": "words"}
    return annotation(Finding(**given | fields), root=Path.cwd())


@pytest.mark.parametrize(("severity", "command"), [("error", "error"), ("warning", "warning"), ("note", "notice")])
def test_each_severity_has_githubs_own_word(severity, command):
    assert of(severity=severity) == f"::{command} file=train.py,line=3,title=truestep a-rule::words"


def test_a_message_cannot_end_its_line_or_forge_an_escape():
    assert of(message="50% of\r\n::error::b").endswith("::50%25 of%0A  ::error::b")
    assert of(evidence=("a\nb",)).endswith("::words%0A  a%0A    b")


def test_a_file_name_cannot_end_its_property():
    assert of(path="a:b,c%\r\n.py").startswith("::error file=a%3Ab%2Cc%25%0D%0A.py,line=3,")


def test_a_finding_without_a_line_has_no_place():
    assert of(path=None, line=None) == "::error title=truestep a-rule::words"


def test_paths_begin_at_the_repository(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    finding = Finding(rule="a", severity="error", path="t.py", line=1, message="m")
    assert annotation(finding, root=tmp_path).startswith("::error file=inner/t.py,line=1,")
