"""Paths below a root, and the text of a line, in whatever encoding the file declares."""

from dataclasses import replace
from pathlib import Path

import pytest

from truestep.audit.finding import Finding
from truestep.audit.report.places import line_of, seen_from, source
from truestep.audit.site import Place


def at(path, line):
    return Finding(rule="a", severity="error", path=path, line=line, message="m")


def test_every_path_of_a_finding_is_seen_from_the_root():
    finding = Finding(
        rule="a",
        severity="error",
        path="/work/a.py",
        line=1,
        message="m",
        callers=(Place("/work/b/c.py", 2, "f"),),
        library=Place("/usr/lib/d.py", 3),
    )
    (seen,) = seen_from(Path("/work"), [finding])
    assert (seen.path, seen.callers, seen.library) == ("a.py", (Place("b/c.py", 2, "f"),), Place("/usr/lib/d.py", 3))


def test_paths_in_the_words_of_a_finding_are_seen_from_the_root_too():
    told = {"message": "as at /work/b.py:3 (/work/c d/e.py:4), not /other/work/f.py:5", "evidence": ("/work/b.py:3",)}
    (seen,) = seen_from(Path("/work"), [replace(at("/work/a.py", 1), **told)])
    assert (seen.message, seen.evidence) == ("as at b.py:3 (c d/e.py:4), not /other/work/f.py:5", ("b.py:3",))


def test_a_relative_path_is_one_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (seen,) = seen_from(tmp_path, [at("./x/../a.py", 1)])
    assert seen.path == "a.py"


def test_a_line_is_read_in_the_encoding_that_its_file_declares(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes("# coding: latin-1\r\n  größe = 1  \r\n".encode("latin-1"))
    assert line_of(at(str(path), 2)) == "größe = 1"


@pytest.mark.parametrize("content", [None, b"# coding: no-such\n", b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_has_no_text(tmp_path, content):
    path = tmp_path / "a.py"
    if content is not None:
        path.write_bytes(content)
    assert source(str(path)) is None
    assert line_of(at(str(path), 1)) is None


def test_a_line_behind_the_end_and_no_line_have_no_text(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert line_of(at(str(path), 9)) is None
    assert line_of(at(None, None)) is None
