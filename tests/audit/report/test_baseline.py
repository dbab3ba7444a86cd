"""A baseline: known findings stay known when lines move, one more of the same is new, and no other file passes for one."""

import json
from dataclasses import replace

import pytest

from truestep.audit.finding import Finding
from truestep.audit.report import baseline
from truestep.errors import FileError


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script in the folder we are in, and what writes it anew."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "train.py").write_text(text)

    write("a()\nclip()\nclip()\n")
    return write


CLIP = Finding(rule="clip", severity="error", path="train.py", line=2, message="m")


def kept(tmp_path, *findings):
    """The findings, written as a baseline and read again."""
    path = tmp_path / "known.json"
    baseline.write(path, baseline.marks(findings, tmp_path))
    return baseline.read(path)


def test_a_finding_stays_known_when_its_line_moves_and_its_numbers_change(script, tmp_path):
    known = kept(tmp_path, CLIP)
    script("import x\n\n\nif x:\n    clip()  \n")
    moved = replace(CLIP, line=5, message="other", times=9)
    assert baseline.parted([moved], known, tmp_path) == ((), (moved,))


@pytest.mark.parametrize("change", [{"rule": "other"}, {"line": 1}, {"path": "else.py"}])
def test_another_rule_line_or_file_is_new(script, tmp_path, change):
    (tmp_path / "else.py").write_text("a()\nclip()\n")
    other = replace(CLIP, **change)
    assert baseline.parted([other], kept(tmp_path, CLIP), tmp_path) == ((other,), ())


def test_a_line_whose_text_changed_is_new(script, tmp_path):
    known = kept(tmp_path, CLIP)
    script("a()\nclip(2)\n")
    assert baseline.parted([CLIP], known, tmp_path)[0] == (CLIP,)


def test_of_equal_lines_as_many_are_known_as_were_counted(script, tmp_path):
    twice = (CLIP, replace(CLIP, line=3))
    assert baseline.parted(twice, kept(tmp_path, CLIP), tmp_path) == (twice[1:], twice[:1])
    assert baseline.parted(twice, kept(tmp_path, *twice), tmp_path) == ((), twice)


def test_a_note_is_never_known_and_uses_up_no_place(script, tmp_path):
    note = replace(CLIP, severity="note")
    assert not kept(tmp_path, note)
    assert baseline.parted([note, CLIP], kept(tmp_path, CLIP), tmp_path) == ((note,), (CLIP,))


def test_a_finding_without_a_line_is_known_by_its_rule(script, tmp_path):
    placeless = replace(CLIP, path=None, line=None)
    assert baseline.parted([placeless], kept(tmp_path, placeless), tmp_path) == ((), (placeless,))


def test_paths_are_from_the_baselines_folder_so_that_it_holds_from_anywhere(script, tmp_path, monkeypatch):
    (tmp_path / "ci").mkdir()
    path = tmp_path / "ci" / "known.json"
    baseline.write(path, baseline.marks([CLIP], path.parent))
    assert json.loads(path.read_text())["findings"][0]["path"] == "../train.py"
    monkeypatch.chdir(tmp_path / "ci")
    from_there = replace(CLIP, path="../train.py")
    assert baseline.parted([from_there], baseline.read(path), path.parent) == ((), (from_there,))


def test_equal_findings_in_any_order_write_equal_bytes(script, tmp_path):
    one, other = CLIP, replace(CLIP, path=None, line=None)
    written = []
    for order in ([one, other], [other, one]):
        kept(tmp_path, *order)
        written.append((tmp_path / "known.json").read_bytes())
    assert written[0] == written[1]


def test_a_baseline_replaces_the_old_one_and_leaves_nothing_beside_it(script, tmp_path):
    kept(tmp_path, CLIP, replace(CLIP, rule="other"))
    assert kept(tmp_path, CLIP).total() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known.json", "train.py"]


HEAD = {"kind": baseline.KIND, "schema": baseline.SCHEMA}
ENTRY = {"rule": "clip", "path": "train.py", "text": "clip()", "count": 1}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no baseline, or a torn one"),
        (json.dumps({**HEAD, "findings": [ENTRY]}).encode()[:-9], "no baseline, or a torn one"),
        (b"\xff", "no baseline, or a torn one"),
        (b"[]", "does not say that it is one"),
        (b'{"schema": 1, "findings": []}', "does not say that it is one"),
        (json.dumps({**HEAD, "schema": 2}).encode(), "of schema 2; this version reads 1"),
        (json.dumps(HEAD).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": [{**ENTRY, "count": 0}]}).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": [{**ENTRY, "count": True}]}).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": [{**ENTRY, "rule": None}]}).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": [{**ENTRY, "text": ["clip()"]}]}).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": ["clip"]}).encode(), "holds a finding that is none"),
        (json.dumps({**HEAD, "findings": [ENTRY, ENTRY]}).encode(), "twice"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_by_name_with_what_to_do(tmp_path, content, complaint):
    path = tmp_path / "known.json"
    path.write_bytes(content)
    with pytest.raises(FileError) as raised:
        baseline.read(path)
    assert complaint in str(raised.value)
    assert str(path) in raised.value.summary
    assert f"--write-baseline {path}" in raised.value.hint


def test_a_baseline_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match=r"gone\.json cannot be read: No such file"):
        baseline.read(tmp_path / "gone.json")
