"""`truestep compare`: one document or tables on stdout, talk on stderr, exit codes, and the command that goes on."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import tyro

from tests import ready
from tests.compare import commands
from tests.compare.processes import children_in
from tests.profile import FULL
from truestep import errors
from truestep.cli import _racing, main
from truestep.cli.compare import Command, _Terminated
from truestep.compare import Protocol, Slot, summarize
from truestep.compare.race import Event

SMALL = ["compare", "digits", "--candidates", "fp32", "bf16", "--seeds", "2", "--budget-attempts", "10", "--target", "0.05"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Whatever a command writes goes below tmp_path."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder in which SMALL has been compared, as tables, and what that printed."""
    folder = tmp_path_factory.mktemp("finished")
    ended = commands.run(*SMALL, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return folder, ended.stdout, ended.stderr


def test_json_is_one_document_with_everything_and_nothing_else_on_stdout(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished[0])
    assert main([*SMALL, "--resume", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"schema", "protocol", "protocol_hash", "runs", "summary", "out", "exit_code"}
    protocol = Protocol.from_dict(document["protocol"])
    assert protocol.hash == document["protocol_hash"]
    assert document["summary"] == json.loads(json.dumps(summarize(protocol, document["runs"]).as_dict()))
    assert (document["out"], document["exit_code"]) == ("truestep-digits", 0)
    assert [(run["candidate"], run["seed"], run["status"]) for run in document["runs"]] == [
        *(("fp32", 0, "reached"), ("bf16", 0, "reached"), ("bf16", 1, "reached"), ("fp32", 1, "reached"))
    ]


def test_stderr_has_a_line_for_each_run(finished):
    lines = finished[2].splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("  1/4  fp32, seed 0: reached after")


def test_the_clocks_of_a_run_sum_to_its_total_and_its_process_has_clocks_beside(finished):
    for record in map(json.loads, (finished[0] / "truestep-digits" / "records.jsonl").read_text().splitlines()):
        assert sum(record["clocks"].values()) == pytest.approx(record["total_seconds"], rel=0.01)
        process = record["process"]
        assert process["startup_seconds"] > 0
        assert process["startup_seconds"] + process["warmup_seconds"] + record["total_seconds"] <= process["wall_seconds"]
        assert process["peak_memory_bytes"] > 2**26, "torch alone is more"
        assert (process["exit_code"], process["signal"], process["at_once"]) == (0, None, 1)


def test_the_folder_holds_protocol_records_summary_report_and_ledgers(finished):
    out = finished[0] / "truestep-digits"
    assert sorted(path.name for path in out.iterdir()) == [
        *("ledgers", "mllog", "protocol.json", "records.jsonl", "report.html", "runs.csv", "summary.json", "summary.md")
    ]
    assert sorted(path.name for path in (out / "ledgers").iterdir()) == [
        *("bf16-seed0.jsonl", "bf16-seed1.jsonl", "fp32-seed0.jsonl", "fp32-seed1.jsonl")
    ]
    assert "report    truestep-digits/report.html" in finished[1]
    assert f"protocol  {json.loads((out / 'summary.json').read_text())['protocol_hash']}" in finished[1]


def test_tables_have_the_baseline_first_and_the_limits_below(finished):
    lines = finished[1].splitlines()
    assert lines[0].startswith("digits: accuracy of at least 0.05, 2 seeds, ")
    assert [line.split()[0] for line in lines[1:4]] == ["candidate", "fp32", "bf16"]
    assert "bf16: no claim: 2 seeds, 6 needed" in lines
    assert any(line.startswith("No claim: 2 seeds can give no p below") for line in lines)
    assert any(line.startswith("Resolution: ") for line in lines)


@pytest.mark.parametrize("seeds", [2 if FULL else 1])
def test_two_comparisons_of_the_same_make_the_same_counts_and_weights_also_two_runs_at_once(finished, seeds):
    """The second with other jobs, hence under another protocol: runs share nothing but the machine."""
    assert commands.run(*SMALL, "--seeds", str(seeds), "--out", "again", "--jobs", "2").returncode == 0
    first, again = (
        {
            (run["candidate"], run["seed"]): (run["counts"], run["evaluations"][0]["quality"], run["weights_digest"])
            for run in map(json.loads, (folder / "records.jsonl").read_text().splitlines())
        }
        for folder in (finished[0] / "truestep-digits", Path("again"))
    )
    assert len(again) == 2 * seeds
    assert {run: first[run] for run in again} == again
    note = next(note for note in json.loads(Path("again/summary.json").read_text())["notes"] if note["kind"] == "at once")
    assert note["text"].startswith("Contended by design: 2 runs at once")


@pytest.mark.skipif(not FULL, reason="eight runs of ten seconds: TRUESTEP_FULL=1")
def test_two_comparisons_of_a_language_model_make_the_same_counts_to_the_target_and_the_same_weights():
    words = ["compare", "bytes-lm", "--candidates", "fp32 accumulate=4", "bf16 accumulate=4", "--seeds", "2", "--target", "4"]
    found = []
    for out in ("one", "two"):
        assert main([*words, "--out", out]) == 0
        runs = map(json.loads, Path(out, "records.jsonl").read_text().splitlines())
        found.append({(run["candidate"], run["seed"]): (run["to_target"]["completed"], run["weights_digest"]) for run in runs})
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert len({weights for _, weights in found[0].values()}) == 4, "no two of the runs are one"


def test_a_finished_comparison_is_refused_without_resume_and_shown_again_with_it(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished[0])
    assert main(SMALL) == 3
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "holds this comparison already, 4 of 4 runs" in refused.err
    assert main([*SMALL, "--resume"]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (finished[1], "")


ODD = """
import os
import torch
from torch import nn
from torch.utils.data import TensorDataset
from truestep.errors import PolicyError
from truestep.tasks import Digits, Splits

class Refusing(Digits):
    def loss(self, model, microbatch):
        if torch.is_autocast_enabled("cpu"):
            raise PolicyError("not this", hint="do that")
        return nn.functional.cross_entropy(model(microbatch[0]), microbatch[1])

class Anew(Digits):
    def splits(self):
        whole = super().splits()
        images, labels = whole.train.tensors
        return Splits(train=TensorDataset(images + os.getpid(), labels), validation=whole.validation, test=whole.test)
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The folder of two runs without the target, one of which ended in an error, and what the command printed."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "odd.py").write_text(ODD)
    words = ["compare", "odd.py:Refusing", "--candidates", "fp32", "bf16", "--seeds", "1", "--budget-attempts", "1"]
    ended = commands.run(*words, "--evaluate-every", "64", "--target", "0.99", "--out", "out", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return folder / "out", ended.stdout, ended.stderr


def test_failures_are_told_by_seed_with_their_best_and_a_hint_below(failed):
    lines = failed[1].splitlines()
    (line,) = (line for line in lines if line.startswith("Not reached: fp32, seed 0, budget; best accuracy on validation 0."))
    evaluations = json.loads((failed[0] / "records.jsonl").read_text().splitlines()[0])["evaluations"]
    assert float(line.rpartition(" ")[2]) == pytest.approx(max(each["quality"] for each in evaluations), rel=5e-4)  # 4 digits
    place = next(
        place for place, line in enumerate(lines) if line.startswith("Not reached: bf16, seed 0, error: PolicyError: not this")
    )
    assert lines[place + 1] == "  hint: do that"


def test_one_of_a_thing_is_told_as_one_and_the_columns_are_explained(failed):
    _, out, err = failed
    assert not re.search(r"\b1 (seeds|runs|updates|threads|completed updates)\b", out + err)
    assert "odd.py:Refusing: accuracy of at least 0.99, 1 seed, " in out
    assert "every 64 examples (1 update)" in out
    assert "budget after 1 completed update, 0 skipped" in err
    assert all(word in out for word in ("Restricted mean: ", "ERT: ", "Rate: ", "validation split; the quality on test"))


def test_a_task_that_draws_its_data_anew_is_refused_before_any_record():
    Path("odd.py").write_text(ODD)
    ended = commands.run("compare", "odd.py:Anew", *SMALL[2:], "--out", "out")
    assert ended.returncode == 3
    assert "fp32, seed 0: the run's data are not those that the protocol declares" in ended.stderr
    assert not Path("out/records.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare", "mnist"], "mnist"),
        (["compare", "digits", "--candidates", "fp64"], "fp64"),
        (["compare", "digits", "--candidates", "fp32", "fp16 rate=1"], "'rate' is no key"),
        (["compare", "digits", "--seeds", "0"], "no seeds"),
        (["compare", "digits", "--seeds", "-3"], "no seeds"),
        (["compare", "digits", "--target", "nan"], "target is no number"),
        (["compare", "digits", "--target", "high"], "high"),
        (["compare", "digits", "--budget-attempts", "0"], "budget_attempts"),
        (["compare", "digits", "--candidates"], "no candidates"),
        (["compare", "digits", "--jobs", "0"], "jobs has to be 1 or more"),
        (["compare", "digits", "--timeout", "0"], "timeout_seconds has to be finite and above 0"),
        (["compare", "digits", "--rerun-failed"], "--resume --rerun-failed"),
        (["compare"], "required"),
    ],
)
def test_what_cannot_be_asked_is_usage_and_leaves_no_trace(arguments, named, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_written_could_not_run(capsys):
    Path("file").write_text("no folder")
    assert main([*SMALL, "--out", "file/out"]) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_the_command_that_goes_on_is_the_command_with_resume():
    command = Command(
        task="my tasks.py:Line",
        candidates=("fp32", "fp16 clip=1"),
        seeds=3,
        target=0.5,
        budget_attempts=9,
        budget_seconds=1.5,
        evaluate_every=8,
        to_the_end=True,
        margin_examples=0.1,
        margin_quality=0.2,
        alpha=0.01,
        threads=2,
        jobs=2,
        timeout=60.0,
        out=Path("a folder"),
        json=True,
    )
    assert parsed(command.command()) == Command(**vars(command) | {"resume": True})
    plain = Command(task="digits")
    assert plain.command() == "truestep compare digits --resume"


def test_with_rerun_failed_both_commands_that_go_on_are_said(monkeypatch, capsys):
    """The first leaves alone what failed twice; the second is what was asked."""
    monkeypatch.setattr("truestep.compare.race.race", raising(KeyboardInterrupt()))
    assert main([*SMALL, "--out", "out", "--resume", "--rerun-failed"]) == 130
    plain = "  truestep compare digits --candidates fp32 bf16 --seeds 2 --target 0.05 --budget-attempts 10 --out out --resume"
    assert capsys.readouterr().err.splitlines() == [
        "0 of 4 runs are kept in out; to go on:",
        plain,
        "to run again what has failed, too, this time included:",
        plain.replace("--resume", "--rerun-failed --resume"),
    ]


def raising(error, *, event=None):
    """What raises this, whatever it is called with, and may tell of an event before."""

    def raises(*args, progress=None, **kwargs):
        if event is not None:
            progress(event)
        raise error

    return raises


def test_ctrl_c_while_a_comparison_is_declared_is_told_in_a_word(monkeypatch, capsys):
    monkeypatch.setattr("truestep.compare.declare.declare", raising(KeyboardInterrupt()))
    assert main(SMALL) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize(
    ("name", "error", "code"),
    [
        ("compare.summarize", KeyboardInterrupt(), 130),
        ("pages.comparison.write", KeyboardInterrupt(), 130),
        ("pages.comparison.write", errors.RecordError("no room"), 3),
    ],
)
def test_once_there_is_a_folder_whatever_ends_it_early_says_how_to_go_on(monkeypatch, capsys, name, error, code):
    monkeypatch.setattr("truestep.compare.race.race", lambda *args, **kwargs: None)
    monkeypatch.setattr(f"truestep.{name}", raising(error))
    assert main([*SMALL, "--out", "out"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("0 of 4 runs are kept in out; to go on:\n  truestep compare digits")
    assert err.splitlines()[-1] == ("interrupted" if code == 130 else "RecordError: no room")


STARTED = Event(slot=Slot(candidate="fp32", seed=100, position=1), total=5, done=0, report={"kind": "started"})


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (_Terminated(), 143), (errors.RecordError("no room"), 3)]
)
def test_a_pilot_that_ends_early_says_how_to_go_on_if_it_has_begun(monkeypatch, capsys, error, code):
    asked = ["compare", "digits", "--pilot", "5", "--out", "out"]
    monkeypatch.setattr("truestep.compare.pilot.piloted", raising(error, event=STARTED))
    assert main(asked) == code
    said = capsys.readouterr().err
    assert said.startswith("the pilot's finished runs are kept in out/pilot; to go on:\n  truestep compare digits --pilot 5")
    monkeypatch.setattr("truestep.compare.pilot.piloted", raising(error))
    assert main(asked) == code
    assert "to go on" not in capsys.readouterr().err


class Bars:
    """Stands in for rich's bars: what was last told of each."""

    def __init__(self, *args, **kwargs):
        self.of = {}
        Bars.last = self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def add_task(self, name, total):
        self.of[name] = []
        return name

    def update(self, name, **told):
        self.of[name].append(told)

    def remove_task(self, name):
        del self.of[name]


def test_the_bar_counts_the_runs_that_are_done_however_their_ends_follow_each_other(monkeypatch, capsys):
    """Three runs at once, the last of which ends first, in a comparison of which one run was there."""
    monkeypatch.setattr(_racing, "Progress", Bars)
    monkeypatch.setattr(_racing.Console, "is_terminal", True)
    slots = [Slot(candidate=name, seed=0, position=place) for place, name in enumerate(("bf16", "fp16", "tf32"), start=2)]
    record = {"status": "reached", "clocks": {"train": 1.0, "waste": 0.0}, "counts": {"completed": 9, "skipped_by_reason": {}}}
    with _racing.shown() as show:
        for slot in slots:
            show(Event(slot=slot, total=4, done=1, report={"kind": "started"}))
        for done, slot in enumerate(reversed(slots), start=2):
            show(Event(slot=slot, total=4, done=done, report={"kind": "ended"}, record=record))
    assert [told["completed"] for told in Bars.last.of["runs"]] == [1, 1, 1, 2, 3, 4]
    assert [line[:16] for line in capsys.readouterr().err.splitlines()] == [
        *("  2/4  tf32, see", "  3/4  fp16, see", "  4/4  bf16, see")
    ]


def parsed(line):
    """The command that a shell's line makes."""
    program, name, *arguments = shlex.split(line)
    assert (program, name) == ("truestep", "compare")
    return tyro.cli(Command, args=arguments, config=(tyro.conf.FlagCreatePairsOff,))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)] if FULL else [(signal.SIGTERM, 143)])
def test_a_signal_keeps_the_finished_runs_and_says_the_command_that_goes_on(number, code, capsys):
    arguments = ["compare", "digits", "--candidates", "fp32", "--seeds", "40", "--target", "0.999", "--budget-attempts", "9"]
    arguments += ["--out", "out"]
    process = commands.started(*arguments)
    for line in process.stderr:
        if "  1/40  fp32, seed 0: budget" in line:
            break
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code
    done = len(Path("out/records.jsonl").read_text().splitlines())
    assert done >= 1
    assert f"{done} of 40 runs are kept in out; to go on:" in err
    assert f"truestep {shlex.join(arguments)} --resume" in err
    assert f"{done} of 40 runs are done" in out
    assert Path("out/report.html").exists()
    assert children_in(Path("out")) == []


def test_on_a_terminal_bars_show_the_runs_and_the_run_and_vanish(monkeypatch):
    """Its run begins anew, as a user's does."""
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    words = [*SMALL[:-1], "0.99", "--out", "out", "--seeds", "1", "--candidates", "bf16"]
    process = ready.started("-m", "truestep", *words, stdout=theirs, stderr=theirs, new_session=True)
    os.close(theirs)
    said = b""
    with suppress(OSError):  # Linux's way to say that the other end has been closed
        while part := os.read(ours, 1 << 12):
            said += part
    os.close(ours)
    assert process.wait() == 0
    assert b"runs" in said
    assert b"bf16, seed 0: warming up" in said
    assert b"-1/" not in said
    assert b"  1/1  bf16, seed 0: budget after 10 completed updates" in said


NOISY = """
import os
import torch
import truestep
from truestep.tasks import Digits

print("at import")

class Noisy(Digits):
    def model(self):
        print("in model")
        os.write(1, b"past Python")
        torch.set_num_threads(2)
        return super().model()
"""


def test_what_a_task_prints_is_no_part_of_the_document():
    Path("noisy.py").write_text(NOISY)
    words = [*SMALL, "--json", "--threads", "1", "--seeds", "1", "--candidates", "fp32"]
    words[words.index("digits")] = "noisy.py:Noisy"
    ended = commands.run(*words)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert all(said in ended.stderr for said in ("at import", "in model", "past Python"))
    assert {run["environment"]["threads"] for run in document["runs"]} == {1}
    log = (Path(document["out"]) / "logs" / "fp32-seed0.txt").read_text()
    assert all(said in log for said in ("at import", "in model", "past Python")), "those of a run are kept by run"


def test_a_folder_in_which_another_process_compares_is_refused_before_any_write():
    out = Path("held")
    out.mkdir()
    hold = "import fcntl, os, sys; fcntl.flock(os.open('held', os.O_RDONLY), fcntl.LOCK_EX); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        ended = commands.run(*SMALL, "--out", "held")
        other.communicate("\n")
    assert ended.returncode == 3
    assert "another process is comparing in held" in ended.stderr
    assert list(out.iterdir()) == []
