"""The text that is shipped is the one that its digest and its notice name; any other is refused."""

import hashlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from truestep.cli.tasks import Command
from truestep.errors import TaskError
from truestep.tasks import bytes_lm
from truestep.tasks.text import SHA256, book, chapters, lines, read


def test_the_text_is_a_resource_of_the_package_with_its_digest_and_below_300_kilobytes() -> None:
    content = files("truestep.tasks").joinpath("data/pride_and_prejudice_volume_one.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    assert len(content) < 300_000


def test_the_notice_beside_it_names_its_digest_its_size_and_its_lines() -> None:
    notice = files("truestep.tasks").joinpath("data/README.md").read_text(encoding="utf-8")
    content = book().read_bytes()
    assert f"| SHA-256 | {SHA256} |" in notice
    assert f"| bytes | {len(content)} |" in notice
    assert f"the first {len(content.splitlines())} lines" in notice


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b"Bingley", b"Bingly", 1),
        lambda content: b"",
    ],
)
def test_a_changed_text_is_refused_with_both_digests(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / "changed.txt"
    file.write_bytes(change(book().read_bytes()))
    with pytest.raises(TaskError, match=r"changed\.txt is not the one") as caught:
        read(file)
    assert caught.value.expected == SHA256
    assert caught.value.found == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_missing_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"absent\.txt cannot be read"):
        read(tmp_path / "absent.txt")


def test_the_task_is_listed_with_the_reason_where_its_text_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "changed.txt").write_text("Chapter 1\n\nOther words.\n")
    monkeypatch.setattr(bytes_lm, "book", lambda: tmp_path / "changed.txt")
    bytes_lm._paragraphs.cache_clear()
    assert Command().run() == 0
    printed = capsys.readouterr()
    row = next(line for line in printed.out.splitlines() if line.startswith("bytes-lm"))
    assert row.split()[6:9] == ["-", "-", "-"]
    assert "changed.txt is not the one" in printed.err


def test_every_chapter_and_every_word_is_kept() -> None:
    whole = read(book()).split("\n")
    assert whole[:3] == ["PRIDE AND PREJUDICE", "", "By Jane Austen"]
    found = chapters("\n".join(whole))
    assert len(found) == 23 == sum(line.startswith("Chapter ") for line in whole)
    broken = b"".join(line for chapter in found for line in lines(chapter, most=128)).decode()
    assert broken.split() == " ".join(line for line in whole[3:] if not line.startswith("Chapter ")).split()


@pytest.mark.parametrize("most", [40, 128])
def test_a_line_is_at_most_as_long_as_asked_and_ends_in_its_only_newline(most: int) -> None:
    broken = [line for chapter in chapters(read(book())) for line in lines(chapter, most=most)]
    assert max(map(len, broken)) == most
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in broken)


def test_the_text_holds_no_byte_that_stands_for_padding() -> None:
    assert b"\0" not in book().read_bytes()
