"""A ledger is read back whole, or refused by name; never half understood."""

import contextlib
import copy
import json
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from truestep.cli.ledger import text
from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome, Reason
from truestep.errors import LedgerError
from truestep.ledger import Ledger, outcomes, read, summarize

Attempts = Callable[..., list[Outcome]]
Write = Callable[..., Path]


def test_outcomes_come_back_as_recorded(
    write: Write, full_outcome: Outcome, plain_outcome: Outcome, make_attempts: Attempts
) -> None:
    recorded = [*make_attempts([None, Reason.BACKWARD]), full_outcome]
    assert list(outcomes(write(recorded))) == recorded
    assert list(outcomes(write([plain_outcome], name="plain.jsonl"))) == [plain_outcome]


def test_a_last_line_torn_at_any_byte_is_passed_over(tmp_path: Path, write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None, Reason.FORWARD, None])
    whole = write(recorded).read_bytes()
    header = whole.index(b"\n") + 1
    for size in range(len(whole) + 1):
        path = tmp_path / "torn.jsonl"
        path.write_bytes(whole[:size])
        if size < header:
            with pytest.raises(LedgerError, match="ends within its header"):
                list(read(path))
        else:
            assert list(outcomes(path)) == recorded[: whole[:size].count(b"\n") - 1]


def test_a_tail_of_zero_bytes_as_a_power_cut_leaves_it_is_passed_over(write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None])
    path = write(recorded)
    with path.open("ab") as file:
        file.write(b"\0" * 512)
    assert list(outcomes(path)) == recorded


def test_attempts_behind_a_resume_are_waste(write: Write, make_attempts: Attempts) -> None:
    first = make_attempts([None] * 5)
    second = make_attempts([Reason.BACKWARD, None], after=first[2].counts)
    path = write(first)
    write(second, resume=True)
    assert list(outcomes(path)) == first[:3] + second
    assert [line["attempt"] for line in read(path) if line.get("waste")] == [4, 5]


def test_a_torn_resume_has_not_happened(tmp_path: Path, write: Write, make_attempts: Attempts) -> None:
    first = make_attempts([None] * 2)
    second = make_attempts([None], after=first[0].counts)
    before = len(write(first).read_bytes())
    whole = write(second, resume=True).read_bytes()
    resumed = whole.index(b"\n", before) + 1
    for size in range(before, len(whole)):
        path = tmp_path / "torn.jsonl"
        path.write_bytes(whole[:size])
        assert list(outcomes(path)) == (first if size < resumed else first[:1])


def test_a_later_resume_can_roll_back_what_an_earlier_one_kept(write: Write, make_attempts: Attempts) -> None:
    first = make_attempts([None] * 4)
    second = make_attempts([None] * 2, after=first[2].counts)
    third = make_attempts([None], after=first[0].counts)
    path = write(first)
    write(second, resume=True)
    write(third, resume=True)
    assert list(outcomes(path)) == [first[0], *third]
    kinds = [(line["kind"], line.get("waste")) for line in read(path)][1:]
    assert kinds == [
        ("attempt", False),
        ("attempt", True),
        ("attempt", True),
        ("attempt", True),
        ("resume", None),
        ("attempt", True),
        ("attempt", True),
        ("resume", None),
        ("attempt", False),
    ]


def test_a_run_begun_afresh_in_its_old_ledger_wastes_all_that_was_there(write: Write, make_attempts: Attempts) -> None:
    path = write(make_attempts([None] * 3))
    again = make_attempts([None])
    write(again, resume=True)
    assert list(outcomes(path)) == again


@pytest.mark.parametrize(
    "content",
    [b"hello\n", b"{}\n", b"[]\n", b"\xff\xfe\n", b'{"kind": "attempt"}\n', b"\0" * 3_000_000, b"[" * 9000 + b"\n"],
)
def test_a_foreign_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"notes\.jsonl is no truestep ledger"):
        list(read(path))


def test_a_ledger_of_another_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "future.jsonl"
    path.write_text(json.dumps({"kind": "header", "schema": 7}) + "\n")
    with pytest.raises(LedgerError, match=r"future\.jsonl is a ledger of schema 7; this version reads schema 1"):
        list(read(path))


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="No such file") as caught:
        list(read(tmp_path / "absent"))
    assert caught.value.path == str(tmp_path / "absent")
    with pytest.raises(LedgerError, match="directory"):
        list(read(tmp_path))


def changed(line: bytes, **values: object) -> bytes:
    return json.dumps(json.loads(line) | values).encode() + b"\n"


RESUME = b'{"kind": "resume", "attempts": "one", "created": "", "environment": {}}\n'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: b"{torn}\n", "line 3 is no JSON"),
        (lambda line: b"\xff{}\n", "line 3 is no JSON"),
        (lambda line: b"[" * 9000 + b"\n", "line 3 is no JSON"),
        (lambda line: b"7\n", "line 3 is none of resume, attempt"),
        (lambda line: changed(line, kind="verdict"), "line 3 is none of"),
        (lambda line: changed(line, kind=["attempt"]), "line 3 is none of"),
        (lambda line: b'{"kind": "attempt", "attempt": 2}\n', "line 3 lacks amp/loss_scale"),
        (lambda line: b'{"kind": "resume", "attempts": 1}\n', "line 3 lacks created, environment"),
        (lambda line: RESUME, 'line 3 holds "one" as attempts, where a whole number'),
        (lambda line: changed(line, attempt=1), "line 3 holds attempt 1 after attempt 1"),
    ],
)
def test_a_line_that_was_changed_is_refused_by_its_number(
    write: Write, make_attempts: Attempts, change: Callable[[bytes], bytes], words: str
) -> None:
    path = write(make_attempts([None] * 3))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = change(lines[2])
    path.write_bytes(b"".join(lines))
    with pytest.raises(LedgerError, match=words):
        list(outcomes(path))


NOWHERE = [True, [], [1], "soon", {"a": "b"}]
"""Values of which each is wrong in most places."""


def places(record: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        *((key,) for key in record if key not in ("kind", "attempt")),
        *(("counts", key) for key in record["counts"]),
        *(("skip", key) for key in record["skip"]),
    ]


def test_a_wrong_value_in_any_field_is_a_ledger_error_that_names_line_and_field(write: Write, full_outcome: Outcome) -> None:
    path = write([full_outcome])
    header, line = path.read_bytes().splitlines(keepends=True)
    right = json.loads(line)
    for place in places(right):
        for value in NOWHERE:
            record = copy.deepcopy(right)
            within = record if len(place) == 1 else record[place[0]]
            if type(within[place[-1]]) is type(value):
                continue  # it may stand there, whatever it says
            within[place[-1]] = value
            path.write_bytes(header + json.dumps(record).encode() + b"\n")
            with pytest.raises(LedgerError, match=re.escape(f"line 2 holds {json.dumps(value)} as {'.'.join(place)}, where")):
                list(read(path))


@pytest.mark.parametrize("value", [None, -1, 0, 10**300, "", "inf", "non-finite loss", {}, [], False, 0.5])
def test_whatever_stands_in_a_field_is_read_or_refused_as_a_ledgers(write: Write, full_outcome: Outcome, value: object) -> None:
    path = write([full_outcome])
    header, line = path.read_bytes().splitlines(keepends=True)
    right = json.loads(line)
    for place in places(right):
        record = copy.deepcopy(right)
        (record if len(place) == 1 else record[place[0]])[place[-1]] = value
        path.write_bytes(header + json.dumps(record).encode() + b"\n")
        with contextlib.suppress(LedgerError):
            list(outcomes(path))
            text(summarize(read(path)))


def test_a_field_that_is_missing_inside_counts_or_skip_is_named(write: Write, full_outcome: Outcome) -> None:
    path = write([full_outcome])
    header, line = path.read_bytes().splitlines(keepends=True)
    for outer, inner in [("counts", "ticks"), ("skip", "curable")]:
        record = json.loads(line)
        del record[outer][inner]
        path.write_bytes(header + json.dumps(record).encode() + b"\n")
        with pytest.raises(LedgerError, match=rf"line 2 lacks {outer}\.{inner}"):
            list(read(path))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("train/losses", {"text": "much"}, "an object of numbers or null"),
        ("train/losses", 1.5, "an object of numbers or null"),
        ("skip", {"reason": "bad luck", "place": None, "detail": "", "curable": False}, "a reason to skip"),
        ("seconds", 10**400, "a number"),  # no float holds it
        ("weight", {"text": "much"}, "a number, an object of numbers or null"),
        ("lr", [0.1, "fast"], "a list of numbers"),
    ],
)
def test_what_only_a_closer_look_refuses(write: Write, full_outcome: Outcome, place: str, value: object, words: str) -> None:
    path = write([full_outcome])
    header, line = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + changed(line, **{place: value}))
    with pytest.raises(LedgerError, match=f"line 2 holds .* as {place}.*, where {words} belongs"):
        list(read(path))


def test_a_header_with_a_wrong_value_is_refused_by_its_field(write: Write) -> None:
    path = write([])
    path.write_bytes(changed(path.read_bytes(), environment=7))
    with pytest.raises(LedgerError, match="line 1 holds 7 as environment, where an object belongs"):
        list(read(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_is_refused_at_once_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="pipe is no truestep ledger: it is a pipe"):
        list(read(tmp_path / "pipe"))
    with pytest.raises(LedgerError, match="it is a pipe"):
        Ledger(tmp_path / "pipe", resume=True, environment={})


def test_memory_does_not_grow_with_the_file(write: Write, make_attempts: Attempts) -> None:
    path = write(make_attempts([None]))
    header, line = path.read_bytes().splitlines(keepends=True)

    def peak_bytes(attempts: int) -> int:
        with path.open("wb") as file:
            file.write(header)
            file.writelines(changed(line, attempt=number) for number in range(1, attempts + 1))
        tracemalloc.start()
        for _ in read(path):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    # ten times the lines, of 700 bytes each: were one byte in ten kept, the second peak would be larger by 126 kB
    assert peak_bytes(2000) < peak_bytes(200) + 50_000


def test_counts_in_memory_equal_counts_read_back(write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None, Reason.BACKWARD, Reason.BACKWARD, None, Reason.FORWARD])
    *_, last = outcomes(write(recorded))
    assert last.counts == recorded[-1].counts
    assert last.counts == Counts(
        attempts=5,
        completed=2,
        skipped_by_reason={"backward overflow": 2, "forward overflow": 1},
        consecutive_skips=1,
        examples_seen=40,
        examples_applied=16,
        tokens_seen=50,
        tokens_applied=20,
        ticks=2,
    )
