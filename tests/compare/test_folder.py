"""A comparison's folder: what is refused, what survives, what a full disk leaves."""

import json
import os
from pathlib import Path

import pytest

from tests.no_room import NO_ROOM, no_room
from truestep import errors
from truestep.compare import Slot, summarize
from truestep.compare.folder import Folder
from truestep.compare.kept import read_protocol, read_records


def contents(path):
    """Every file below `path`, by its name there."""
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


def test_a_new_folder_holds_the_protocol_before_any_run_and_no_trace_of_the_probe(declare, tmp_path):
    protocol = declare()
    Folder.opened(tmp_path / "a" / "b", protocol, resume=False)
    assert contents(tmp_path / "a" / "b") == ["protocol.json"]
    assert (tmp_path / "a" / "b" / "protocol.json").read_bytes() == protocol.canonical()
    assert read_protocol(tmp_path / "a" / "b") == protocol


@pytest.mark.parametrize("place", ["file/out", "file"])
def test_a_folder_that_cannot_be_is_refused_by_name_before_any_work(declare, tmp_path, place):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(errors.RecordError, match="cannot be written") as caught:
        Folder.opened(tmp_path / place, declare(), resume=False)
    assert caught.value.path == str(tmp_path / place)
    assert "--out" in caught.value.hint
    assert contents(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the system has no /proc")
@pytest.mark.parametrize("place", ["/proc", "/proc/truestep-out"])
def test_a_folder_in_which_no_file_can_be_made_is_refused(declare, place):
    with pytest.raises(errors.RecordError, match=f"{place} cannot be written"):
        Folder.opened(Path(place), declare(), resume=False)


def test_records_are_read_back_as_they_were_appended(declare, raced, tmp_path):
    protocol = declare()
    records = raced(protocol, fp32=[10, None], fp16=[9])
    folder = Folder.opened(tmp_path, protocol, resume=False)
    for record in records:
        folder.append(record)
    assert folder.records == read_records(tmp_path) == records
    assert Folder.opened(tmp_path, protocol, resume=True).records == records


def test_a_record_is_whole_in_its_file_when_it_is_synced(declare, raced, tmp_path, monkeypatch):
    protocol = declare()
    folder = Folder.opened(tmp_path, protocol, resume=False)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    sizes = []
    for record in raced(protocol, fp32=[10, 11]):
        folder.append(record)
        sizes.append((tmp_path / "records.jsonl").stat().st_size)
    assert synced == sizes


def test_finished_runs_are_not_begun_anew_without_being_asked_to_go_on(declare, ran, tmp_path):
    protocol = declare()
    Folder.opened(tmp_path, protocol, resume=False).append(ran(protocol, "fp32", 3))
    with pytest.raises(errors.RecordError, match="holds this comparison already, 1 of 12 runs") as caught:
        Folder.opened(tmp_path, protocol, resume=False)
    assert caught.value.hint == "--resume goes on with what is missing; another --out begins anew"
    assert len(read_records(tmp_path)) == 1


@pytest.mark.parametrize(
    ("status", "seconds", "more"),
    [
        ("reached", 2.0, ""),
        ("diverged", 2.0, ""),  # would diverge again
        ("crashed", 20.0, ""),  # has spent the budget
        ("crashed", 2.0, "--resume --rerun-failed makes 1 failed run again; "),
    ],
)
def test_where_no_run_is_missing_the_report_is_named_and_failed_runs_only_if_they_can_be_made_again(
    declare, ran, tmp_path, status, seconds, more
):
    protocol, out = declare(seeds=(3,)), tmp_path / "my runs"
    folder = Folder.opened(out, protocol, resume=False)
    folder.append(ran(protocol, "fp32", 3))
    folder.append(ran(protocol, "fp16", 3, status=status, total_seconds=seconds))
    folder.hold = None
    with pytest.raises(errors.RecordError, match="holds this comparison already, 2 of 2 runs") as caught:
        Folder.opened(out, protocol, resume=False)
    report = f"no run is missing: truestep report '{out}' makes its report again; "
    assert caught.value.hint == f"{report}{more}another --out begins anew"


def test_a_folder_without_a_finished_run_is_begun_again(declare, tmp_path):
    Folder.opened(tmp_path, declare(), resume=False)
    assert Folder.opened(tmp_path, declare(), resume=False).records == []


@pytest.mark.parametrize("resume", [False, True])
def test_another_protocol_is_refused_by_both_hashes_and_the_first_field_that_differs(declare, ran, tmp_path, resume):
    there, asked = declare(), declare(target=0.9, alpha=0.01)
    Folder.opened(tmp_path, there, resume=False).append(ran(there, "fp32", 3))
    with pytest.raises(errors.RecordError, match="first difference is target") as caught:
        Folder.opened(tmp_path, asked, resume=resume)
    facts = caught.value.facts
    assert (facts["there"], facts["asked"], facts["field"]) == (there.hash, asked.hash, "target")
    assert (facts["there_value"], facts["asked_value"]) == ("0.95", "0.9")
    assert read_protocol(tmp_path) == there, "what is there stays"


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"seeds": (3, 5), "initial_weights": {"3": "a" * 64}}, "seeds", "cannot be added"),
        ({"code_digest": "0" * 64}, "code_digest", "the task's code has changed"),
        ({"data_digest": "0" * 64}, "data_digest", "the task's data are others"),
        ({"budget_attempts": 9, "schedule": "cosine over 9"}, "budget_attempts", "ask for what it holds"),
    ],
)
def test_the_difference_is_told_by_what_was_asked_and_not_by_what_follows(declare, tmp_path, changes, field, words):
    Folder.opened(tmp_path, declare(), resume=False)
    with pytest.raises(errors.RecordError, match=f"first difference is {field}\n") as caught:
        Folder.opened(tmp_path, declare(**changes), resume=True)
    assert words in caught.value.hint


def test_a_long_difference_is_shortened(declare, tmp_path):
    Folder.opened(tmp_path, declare(model="x" * 500), resume=False)
    with pytest.raises(errors.RecordError) as caught:
        Folder.opened(tmp_path, declare(), resume=False)
    assert len(caught.value.there_value) == 80


@pytest.mark.parametrize("resume", [False, True])
def test_records_without_a_protocol_are_refused(declare, ran, tmp_path, resume):
    (tmp_path / "records.jsonl").write_text(json.dumps(ran(declare(), "fp32", 3)) + "\n")
    with pytest.raises(errors.RecordError, match="holds"):
        Folder.opened(tmp_path, declare(), resume=resume)
    assert not (tmp_path / "protocol.json").exists()


@pytest.mark.parametrize("torn", [b'{"candidate": "fp', b'{"schema": 1}', b"\xff\xfe"])
def test_what_follows_the_last_newline_was_never_finished_and_is_cut_off(declare, ran, tmp_path, torn):
    protocol = declare()
    folder = Folder.opened(tmp_path, protocol, resume=False)
    folder.append(ran(protocol, "fp32", 3))
    with open(tmp_path / "records.jsonl", "ab") as file:
        file.write(torn)
    folder = Folder.opened(tmp_path, protocol, resume=True)
    folder.append(ran(protocol, "fp16", 3))
    assert [record["candidate"] for record in read_records(tmp_path)] == ["fp32", "fp16"]


@pytest.mark.parametrize("line", ["{not json}", "[1, 2]", "", "{}", '{"schema": 2}', '{"schema": 1, "candidate": "fp32"}'])
def test_a_line_that_is_no_record_is_refused_by_its_number(declare, ran, tmp_path, line):
    protocol = declare()
    Folder.opened(tmp_path, protocol, resume=False).append(ran(protocol, "fp32", 3))
    with open(tmp_path / "records.jsonl", "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(errors.RecordError, match=r"records\.jsonl, line 2,"):
        Folder.opened(tmp_path, protocol, resume=True)


def test_a_run_recorded_twice_is_refused_by_name(declare, ran, tmp_path):
    protocol = declare()
    folder = Folder.opened(tmp_path, protocol, resume=False)
    folder.append(ran(protocol, "fp32", 3))
    folder.append(ran(protocol, "fp32", 3))
    with pytest.raises(errors.RecordError, match="fp32, seed 3, is there twice"):
        Folder.opened(tmp_path, protocol, resume=True)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 1}'])
def test_a_protocol_file_that_holds_none_is_refused(declare, tmp_path, content):
    (tmp_path / "protocol.json").write_bytes(content)
    with pytest.raises(errors.RecordError):
        Folder.opened(tmp_path, declare(), resume=True)
    assert (tmp_path / "protocol.json").read_bytes() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["records.jsonl", "protocol.json"])
def test_what_is_no_file_is_refused_rather_than_waited_for(declare, tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / name).symlink_to(tmp_path / "pipe")
    with pytest.raises(errors.RecordError, match="no regular file"):
        Folder.opened(tmp_path, declare(), resume=True)


def test_a_disk_that_fills_up_keeps_the_finished_runs_says_so_and_can_be_gone_on_from(declare, raced, tmp_path):
    protocol = declare()
    records = raced(protocol, fp32=[10, 11, 12])
    room = 2 * len(json.dumps(records[0])) + 100  # for two records and a part of the third
    folder = Folder.opened(tmp_path / "out", protocol, resume=False)
    with no_room(room), pytest.raises(errors.RecordError, match=NO_ROOM) as caught:
        for record in records:
            folder.append(record)
    assert (caught.value.kept, len(folder.records)) == (2, 2)
    assert "2 finished runs kept" in str(caught.value)
    assert "--resume" in str(caught.value)
    assert not (tmp_path / "out" / "records.jsonl").read_bytes().endswith(b"\n"), "the third is torn"
    folder = Folder.opened(tmp_path / "out", protocol, resume=True)
    folder.append(records[2])
    assert read_records(tmp_path / "out") == records


def test_an_interrupted_ledger_is_kept_under_another_name_each_time(declare, tmp_path):
    folder = Folder.opened(tmp_path, declare(), resume=False)
    slot = Slot(candidate="fp16 clip=1", seed=3, position=1)
    folder.set_aside(slot)
    assert folder.interrupted() == []
    for text in ("first", "second"):
        folder.ledger(slot).write_text(text)
        folder.set_aside(slot)
    assert folder.interrupted() == ["fp16-clip-1-seed3.interrupted-1.jsonl", "fp16-clip-1-seed3.interrupted-2.jsonl"]
    assert (tmp_path / "ledgers" / "fp16-clip-1-seed3.interrupted-2.jsonl").read_text() == "second"
    assert not folder.ledger(slot).exists()


def test_to_ask_for_a_name_makes_nothing(declare, tmp_path):
    folder = Folder.opened(tmp_path, declare(), resume=False)
    slot = Slot(candidate="fp16", seed=3, position=1)
    assert (folder.ledger(slot).parent.name, folder.log(slot).parent.name) == ("ledgers", "logs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["protocol.json"]


def test_the_summary_is_replaced_as_a_whole(declare, raced, tmp_path):
    protocol = declare()
    folder = Folder.opened(tmp_path, protocol, resume=False)
    folder.write_summary(summarize(protocol, []))
    full = summarize(protocol, raced(protocol, fp32=[10, 11]))
    folder.write_summary(full)
    assert json.loads((tmp_path / "summary.json").read_text()) == json.loads(json.dumps(full.as_dict()))
    assert contents(tmp_path) == ["protocol.json", "summary.json"]


def test_a_summary_that_cannot_be_written_leaves_the_earlier_one_and_says_what_is_kept(declare, tmp_path):
    folder = Folder.opened(tmp_path, declare(), resume=False)
    (tmp_path / "summary.json").mkdir()  # in the way of the file that would take its place
    with pytest.raises(errors.RecordError, match=r"writing .*summary\.json") as caught:
        folder.write_summary(summarize(declare(), []))
    assert caught.value.kept == 0
    assert contents(tmp_path) == ["protocol.json"], "no part of it either"


def test_what_a_killed_process_left_of_an_unfinished_file_is_swept(declare, tmp_path):
    Folder.opened(tmp_path, declare(), resume=False)
    (tmp_path / ".summary.json.0123abcd.new").write_bytes(b"{")
    Folder.opened(tmp_path, declare(), resume=False)
    assert contents(tmp_path) == ["protocol.json"]
