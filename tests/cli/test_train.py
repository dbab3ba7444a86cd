"""`truestep train`: a folder that can be gone on with, one document or a table on stdout, talk on stderr, exit codes."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import tyro

from tests.cli.started import started
from truestep.cli import main
from truestep.cli.train import Command
from truestep.run import RunRecord, Settings, train
from truestep.tasks import Logistic

HERE = Path(__file__).parent
SMALL = ["train", "logistic", "--budget-attempts", "12", "--device", "cpu"]
RUN = Path("runs/logistic-fp32-seed0")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Whatever a command writes goes below tmp_path."""
    monkeypatch.chdir(tmp_path)


def record_in(folder):
    return RunRecord.from_dict(json.loads((folder / "record.json").read_bytes()))


def test_the_folder_holds_settings_ledger_checkpoints_and_record(capsys):
    assert main(SMALL) == 0
    assert sorted(path.name for path in RUN.iterdir()) == ["checkpoints", "ledger.jsonl", "record.json", "settings.json"]
    names = sorted(path.name for path in (RUN / "checkpoints").glob("*.ckpt"))
    assert names == ["attempt-00000010.ckpt", "attempt-00000012.ckpt"], "at evaluations, and at the end"
    record = record_in(RUN)
    alone = train(Logistic(), Settings(budget_attempts=12, device="cpu", threads=1, stop_at_target=False), seed=0)
    assert (record.weights_digest, record.counts) == (alone.weights_digest, alone.counts)
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "runs/logistic-fp32-seed0: fp32, seed 0, cpu"
    assert out.splitlines()[2].split()[0] == "budget"
    assert out.splitlines()[-1] == f"weights  {record.weights_digest}"
    assert [line.split()[0] for line in err.splitlines()] == ["5/12", "10/12"]
    assert all(word in err for word in ("quality", "loss", "scale 1", "skipped", "examples/s", "left"))


def test_a_target_that_was_missed_is_told_from_one_that_nobody_set_and_no_quality_from_one(capsys):
    Path("aimless.py").write_text(AIMLESS)
    for options, words in (([], "no target"), (["--target", "1e-9"], "not reached"), (["--target", "1e9"], "1 updates")):
        line = ["train", "aimless.py:Aimless", "--budget-attempts", "1", "--evaluate-every", "64", "--device", "cpu"]
        out = words.replace(" ", "-")
        assert main([*line, *options, "--out", out]) == 0
        assert words in capsys.readouterr().out.splitlines()[2]
        assert main([*line, *options, "--out", out, "--resume"]) == 0
        assert words in capsys.readouterr().out.splitlines()[2], "shown again"
    Path("aimless.py").write_text(AIMLESS + "    def loss(self, model, microbatch):\n        raise ValueError\n")
    assert main(["train", "aimless.py:Aimless", "--device", "cpu", "--out", "failed"]) == 3
    row = capsys.readouterr().out.splitlines()[2]
    assert row.count("not measured") >= 2
    assert "-" not in row.split()


AIMLESS = "from truestep.tasks import Logistic\nclass Aimless(Logistic):\n    target = None\n"


def test_json_is_one_document_with_everything(capsys):
    assert main([*SMALL, "--policy", "bf16", "--clip", "1", "--json"]) == 0
    out, _ = capsys.readouterr()
    document = json.loads(out)
    assert set(document) == {"schema", "settings", "run", "out", "resume", "exit_code", "profile"}
    assert document["profile"] is None
    assert RunRecord.from_dict(document["run"]) == record_in(Path(document["out"]))
    assert (document["out"], document["exit_code"], document["resume"]) == ("runs/logistic-bf16-clip-1-seed0", 0, None)
    assert (document["settings"]["policy"], document["settings"]["budget_attempts"]) == ("bf16", 12)


def test_every_option_reaches_the_run(monkeypatch):
    options = "--policy fp16 --scale static:32 --accumulate 2 --clip 0.5 --clock examples:64 --budget-attempts 3 --seed 4"
    options += " --budget-seconds 90 --evaluate-every 128 --target 0.1 --stop-at-target --keep-last 1 --checkpoint-every 2"
    assert (
        main(
            [
                "train",
                "logistic",
                "--device",
                "cpu",
                "--threads",
                "1",
                "--on-oom",
                "accumulate",
                "--out",
                "here",
                *options.split(),
            ]
        )
        == 0
    )
    lines = [json.loads(line) for line in Path("here/ledger.jsonl").read_text().splitlines()]
    assert lines[0]["run_id"] == "fp16 scale=static:32 accumulate=2 clip=0.5 clock=examples:64 seed 4"
    assert {(line["amp/loss_scale"], line["microbatches"]) for line in lines[1:]} == {(32.0, 2)}
    assert max(line["grad_norm_clipped"] for line in lines[1:]) <= 0.5
    record = record_in(Path("here"))
    assert (record.seed, record.counts.attempts, len(record.evaluations)) == (4, 3, 3)
    assert len(list(Path("here/checkpoints").glob("*.ckpt"))) <= 2, "the last one, and the best"


def test_a_profile_is_printed_below_the_run_keeps_a_trace_and_changes_no_bit(capsys):
    assert main([*SMALL, "--out", "plain"]) == 0
    capsys.readouterr()
    assert main([*SMALL, "--out", "profiled", "--profile"]) == 0
    out = capsys.readouterr().out.splitlines()
    place = out.index("5 attempts timed: fp32 on cpu")
    assert (out[place - 2].split()[0], out[place - 1], out[place + 1].split()) == ("weights", "", ["stage", "median", "share"])
    assert out[-1] == f"trace  {Path('profiled/trace.json').absolute()}"
    names = {event.get("name") for event in json.loads(Path("profiled/trace.json").read_text())["traceEvents"]}
    assert {"truestep.attempt", "truestep.forward", "truestep.apply"} <= names
    assert record_in(Path("profiled")).weights_digest == record_in(Path("plain")).weights_digest


def test_the_table_of_a_profile_is_in_the_document(capsys):
    assert main([*SMALL, "--profile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert (found["attempts"], found["asked"]["begun"]) == (5, 9)
    assert sum(stage["share"] for stage in found["stages"]) == pytest.approx(1.0)


def test_a_run_that_is_finished_has_nothing_to_profile(capsys):
    assert main(SMALL) == 0
    assert main([*SMALL, "--profile", "--resume"]) == 0
    assert "timed" not in capsys.readouterr().out
    assert not (RUN / "trace.json").exists()


def test_a_trace_that_cannot_be_written_ends_the_command_before_anything_is_trained(capsys):
    (RUN / "trace.json").mkdir(parents=True)
    assert main([*SMALL, "--profile"]) == 3
    assert "no trace can be written" in capsys.readouterr().err
    assert not (RUN / "ledger.jsonl").exists()
    assert main(SMALL) == 0, "and the folder is free"


def test_stages_are_in_the_ledger_on_request_which_may_change_with_a_resume():
    assert main([*SMALL, "--budget-attempts", "3", "--time-stages"]) == 0
    assert main([*SMALL, "--budget-attempts", "3", "--resume"]) == 0
    for line in map(json.loads, (RUN / "ledger.jsonl").read_text().splitlines()[1:]):
        assert sum(line["perf/seconds_by_stage"].values()) == pytest.approx(line["seconds"])


# An existing folder.


def test_a_run_that_is_there_is_refused_without_resume_and_shown_again_with_it(capsys):
    assert main(SMALL) == 0
    first = capsys.readouterr()
    assert main(SMALL) == 3
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "runs/logistic-fp32-seed0 holds this run already" in refused.err
    assert "--resume goes on with it" in refused.err
    assert main([*SMALL, "--resume"]) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "is finished (budget)" in again.err


def test_resume_begins_where_nothing_is(capsys):
    assert main([*SMALL, "--resume"]) == 0
    assert record_in(RUN).counts.attempts == 12


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--policy", "bf16"], 'its policy is "fp32", and "bf16" was asked'),
        (["--seed", "3"], "its seed is 0, and 3 was asked"),
        (["--budget-attempts", "13"], "its budget attempts is 12, and 13 was asked"),
        (["--clip", "1"], "its candidate"),
        (["--threads", "2"], "its threads is 1, and 2 was asked"),
    ],
)
def test_a_resume_with_other_settings_is_refused_by_the_first_difference(options, named, capsys):
    assert main([*SMALL, "--out", "here"]) == 0
    before = {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*SMALL, "--out", "here", "--resume", *options]) == 3
    assert named in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["ledger.jsonl", "record.json"])
def test_files_of_somebody_else_are_not_written_over(name, capsys):
    Path("here").mkdir()
    (Path("here") / name).write_text("precious")
    assert main([*SMALL, "--out", "here", "--resume"]) == 3
    assert f"holds a {name}" in capsys.readouterr().err
    assert [path.name for path in Path("here").iterdir()] == [name]


def test_a_folder_in_which_another_process_trains_is_refused(capsys):
    Path("held").mkdir()
    hold = "import fcntl, os; fcntl.flock(os.open('held', os.O_RDONLY), fcntl.LOCK_EX); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        assert main([*SMALL, "--out", "held"]) == 3
        other.communicate("\n")
    assert "another process is training in held" in capsys.readouterr().err
    assert list(Path("held").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--policy", "fp64"], "fp64"),
        (["--policy", ""], "--policy ''"),
        (["--policy", "fp32 clip=1"], "--policy 'fp32 clip=1'"),
        (["--scale", "loud"], "UsageError: --scale loud says nothing\nhint: write --scale dynamic, dynamic:INIT,"),
        (["--scale", ""], "--scale ''"),
        (["--accumulate", "0"], "UsageError: --accumulate 0 says nothing\nhint: write --accumulate N, microbatches"),
        (["--clip", "-1"], "UsageError: --clip -1.0 says nothing\nhint: write --clip X, a norm above 0"),
        (["--clip", "0"], "UsageError: --clip 0.0 says nothing"),
        (["--clock", "noon"], "UsageError: --clock noon says nothing"),
        (["--out", ""], "UsageError: --out ''"),
        (["--threads", "100000000000"], "UsageError: --threads 100000000000"),
        (["--threads", "0"], "UsageError: --threads 0"),
        (["--budget-attempts", "0"], "budget_attempts"),
        (["--keep-last", "0"], "keep_last"),
        (["--checkpoint-every", "0"], "every_attempts"),
        (["--max-skip-rate", "2"], "skip rate of 2"),
        (["--device", "abacus"], "abacus"),
        (["--on-oom", "pray"], "pray"),
    ],
)
def test_what_cannot_be_asked_is_usage_and_leaves_no_trace(options, named, capsys):
    assert main([*SMALL, *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert list(Path().iterdir()) == []


# How a run ends.


def failing(monkeypatch, error, *, after):
    """Digits, whose loss raises `error` from the microbatch `after` on."""
    loss, calls = Logistic.loss, iter(range(10**6))

    def broken(self, model, microbatch):
        if next(calls) >= after and error is not None:
            raise error
        return loss(self, model, microbatch)

    monkeypatch.setattr(Logistic, "loss", broken)
    return lambda: monkeypatch.setattr(Logistic, "loss", loss)


def test_a_task_that_fails_ends_with_3_and_goes_on_from_its_checkpoint_once_it_is_mended(monkeypatch, capsys):
    assert main([*SMALL, "--out", "alone"]) == 0
    mend = failing(monkeypatch, KeyError("no such pixel"), after=30)
    assert main([*SMALL, "--checkpoint-every", "3"]) == 3
    out, err = capsys.readouterr()
    assert "error: KeyError: 'no such pixel'" in out
    assert "truestep train logistic --budget-attempts 12 --device cpu --checkpoint-every 3 --resume" in err
    assert record_in(RUN).status == "error"
    mend()
    assert main([*SMALL, "--resume"]) == 0
    assert f"going on after attempt 7 from {RUN.resolve()}/checkpoints/attempt-00000007.ckpt" in capsys.readouterr().err
    assert record_in(RUN).weights_digest == record_in(Path("alone")).weights_digest


def test_a_run_that_diverged_is_a_result(monkeypatch, capsys):
    loss = Logistic.loss
    monkeypatch.setattr(Logistic, "loss", lambda self, model, microbatch: loss(self, model, microbatch) * float("nan"))
    arguments = ["train", "logistic", "--device", "cpu"]
    assert main(arguments) == 0
    assert "diverged: 50 attempts in a row were skipped" in capsys.readouterr().out
    assert main([*arguments, "--resume"]) == 0
    assert "is finished (diverged)" in capsys.readouterr().err


def test_memory_that_runs_out_is_told_with_the_accumulation_that_may_fit(monkeypatch, capsys):
    failing(monkeypatch, torch.OutOfMemoryError("CUDA out of memory"), after=0)
    assert main(SMALL) == 3
    out, _ = capsys.readouterr()
    assert "out of memory: OutOfMemoryError: CUDA out of memory" in out
    assert "hint: the largest microbatch held 32 examples; accumulate=8 halves that" in out


def test_too_many_skips_are_warned_of(monkeypatch, capsys):
    monkeypatch.setattr(Logistic, "weight", lambda self, microbatch: 0.0)
    assert main(["train", "logistic", "--budget-attempts", "20", "--device", "cpu", "--max-skip-rate", "0.05"]) == 0
    assert "warning: 11 of the last 11 attempts were skipped (100 %, limit 5 %)" in capsys.readouterr().err


def test_tensorboard_takes_the_attempts_too():
    assert main([*SMALL, "--sink", "tensorboard"]) == 0
    assert list((RUN / "tensorboard").rglob("events*"))


def parsed(line):
    """The command that a shell's line makes."""
    program, name, *arguments = shlex.split(line)
    assert (program, name) == ("truestep", "train")
    return tyro.cli(Command, args=arguments, config=(tyro.conf.FlagCreatePairsOff,))


def test_the_command_that_goes_on_is_the_command_with_resume():
    command = Command(
        task="my tasks.py:Line",
        policy="fp16",
        scale="static:8",
        accumulate=3,
        clip=0.5,
        clock="epoch",
        budget_attempts=9,
        budget_seconds=1.5,
        evaluate_every=8,
        target=0.5,
        stop_at_target=True,
        seed=2,
        device="cpu",
        threads=2,
        out="a folder",
        keep_last=5,
        checkpoint_every=7,
        on_oom="accumulate",
        max_skip_rate=0.25,
        sink=("tensorboard", "wandb"),
        profile=True,
        time_stages=True,
        json=True,
    )
    assert parsed(command.command()) == Command(**vars(command) | {"resume": True})
    assert Command(task="digits").command() == "truestep train digits --resume"


def test_a_value_that_begins_as_an_option_does_is_given_as_one():
    command = Command(task="digits", out="-odd name", target=-0.5, scale="-1", seed=-3)
    assert parsed(command.command()) == Command(**vars(command) | {"resume": True})
    assert "'--out=-odd name'" in command.command()


# Signals.


def wait_for(process, word):
    """Read stderr up to the line that holds `word`."""
    for line in process.stderr:
        if word in line:
            return
    raise AssertionError(f"it ended without a word of {word}")


LONG = ["train", f"{HERE}/noisy_task.py:Noisy", "--policy", "fp16", "--budget-attempts", "200", "--device", "cpu"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The record of the long run that no signal disturbs."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert main([*LONG, "--out", str(folder)]) == 0
    return record_in(folder)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_attempt_end_saves_and_says_the_command_that_goes_on(alone, number, code, capsys):
    process = started(*LONG, "--out", "a folder")
    wait_for(process, "14/200")
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code, err
    assert out.splitlines()[2].split()[0] == "stopped"
    (line,) = (line for line in err.splitlines() if line.startswith("  truestep train"))
    assert line.strip() == f"truestep {shlex.join([*LONG, '--out', 'a folder'])} --resume"
    stopped = record_in(Path("a folder"))
    assert 14 <= stopped.counts.attempts < 200
    assert main(shlex.split(line)[1:]) == 0
    assert f"going on after attempt {stopped.counts.attempts} " in capsys.readouterr().err
    assert record_in(Path("a folder")).weights_digest == alone.weights_digest
    assert record_in(Path("a folder")).counts == alone.counts


SLOW = """
import sys, time
from truestep.tasks import Logistic

class Slow(Logistic):
    calls = 0

    def loss(self, model, microbatch):
        Slow.calls += 1
        if Slow.calls == 9:
            print("in the third attempt", file=sys.stderr, flush=True)
            time.sleep(600)
        return super().loss(model, microbatch)

class Late(Logistic):
    def splits(self):
        print("in splits", file=sys.stderr, flush=True)
        time.sleep(600)
"""


def test_a_second_signal_ends_it_at_once():
    Path("slow.py").write_text(SLOW)
    process = started("train", "slow.py:Slow", "--device", "cpu", "--out", "out", "--checkpoint-every", "1")
    wait_for(process, "in the third attempt")
    process.send_signal(signal.SIGTERM)
    wait_for(process, "a second signal ends at once")
    time.sleep(0.6)  # sooner it would be the first one, sent twice
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 143
    assert Path("out/checkpoints/attempt-00000002.ckpt").exists()
    assert not Path("out/record.json").exists()


def test_a_signal_before_the_first_attempt_ends_it_at_once():
    Path("slow.py").write_text(SLOW)
    process = started("train", "slow.py:Late", "--device", "cpu", "--out", "out")
    wait_for(process, "in splits")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143
    assert "truestep train slow.py:Late --device cpu --out out --resume" in err


def test_on_a_terminal_a_bar_shows_the_run_and_vanishes(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    process = started(*SMALL, terminal=theirs)
    os.close(theirs)
    shown = b""
    with open(ours, "rb", buffering=0) as screen, suppress(OSError):  # which is how the end of a terminal is told
        while more := screen.read(4096):
            shown += more
    process.communicate()
    assert process.returncode == 0
    assert b"10/12  quality" in shown


# A folder that says the rest.


OPTIONS = "--policy bf16 --clip 0.5 --scale none --clock attempt --seed 3 --evaluate-every 128 --checkpoint-every 2 --keep-last 1"


def test_a_run_goes_on_by_its_folder_alone(tmp_path):
    Path("breaks.py").write_text(BREAKS)
    line = ["train", "breaks.py:Breaks", *OPTIONS.split(), "--budget-attempts", "12", "--device", "cpu", "--time-stages"]
    assert main([*line, "--out", "whole"]) == 3
    Path("mended").write_text("")
    assert main([*line, "--out", "whole", "--resume"]) == 0
    Path("mended").unlink()
    assert main([*line, "--out", "here"]) == 3
    Path("mended").write_text("")
    assert main(["train", "--resume", "here"]) == 0
    ended, whole = record_in(Path("here")), record_in(Path("whole"))
    assert (ended.weights_digest, ended.counts, ended.candidate) == (whole.weights_digest, whole.counts, whole.candidate)
    kept = [sorted(path.name for path in Path(folder, "checkpoints").glob("*.ckpt")) for folder in ("here", "whole")]
    assert kept[0] == kept[1]
    attempts = [line for line in map(json.loads, Path("here/ledger.jsonl").read_text().splitlines()) if line["kind"] == "attempt"]
    assert all("perf/seconds_by_stage" in line for line in attempts)


BREAKS = """
from pathlib import Path
from truestep.tasks import Logistic

class Breaks(Logistic):
    calls = 0

    def loss(self, model, microbatch):
        Breaks.calls += 1
        if Breaks.calls % 7 == 0 and not Path("mended").exists():
            raise ValueError("once")
        return super().loss(model, microbatch)
"""


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--policy", "fp32"], 'its policy is "bf16", and "fp32" was asked'),
        (["--seed", "0"], "its seed is 3, and 0 was asked"),
        (["--threads", "2"], "its threads is 1, and 2 was asked"),
        (["--clip", "1"], 'its candidate is "bf16 clip=0.5", and "bf16 clip=1" was asked'),
        (["--clock", "attempt"], 'its candidate is "bf16 clip=0.5", and "bf16 clip=0.5 clock=attempt" was asked'),
        (["--stop-at-target"], "its stop at target is false, and true was asked"),
        (["--out", "there"], "--out there is another folder than here"),
    ],
)
def test_what_is_said_beside_a_folder_has_to_be_what_stands_there(options, named, capsys):
    line = ["train", "logistic", "--policy", "bf16", "--clip", "0.5", "--seed", "3", "--budget-attempts", "2", "--device", "cpu"]
    assert main([*line, "--out", "here"]) == 0
    assert main(["train", "--resume", "here", *options]) in (2, 3)
    assert named in capsys.readouterr().err


def test_a_runs_folder_is_no_task_without_resume(capsys):
    assert main([*SMALL, "--out", "here"]) == 0
    assert main(["train", "here"]) == 2
    assert "hint: truestep train here --resume goes on with it" in capsys.readouterr().err


def test_a_folder_that_does_not_say_what_its_run_was_is_told(capsys):
    Path("here").mkdir()
    Path("here/settings.json").write_text('{"schema": 1, "candidate": "fp32"}')
    assert main(["train", "--resume", "here"]) == 3
    assert "here does not say the 'task' of its run" in capsys.readouterr().err


def test_what_may_change_stays_as_it_was_said_last():
    Path("breaks.py").write_text(BREAKS)
    line = ["train", "breaks.py:Breaks", "--budget-attempts", "12", "--device", "cpu", "--checkpoint-every", "2", "--out", "here"]
    assert main([*line, "--keep-last", "1"]) == 3
    assert main(["train", "here", "--resume", "--keep-last", "4"]) == 3, "it breaks where it broke"
    Path("mended").write_text("")
    assert main(["train", "here", "--resume"]) == 0
    assert json.loads(Path("here/settings.json").read_text())["free"]["keep_last"] == 4
    assert len(list(Path("here/checkpoints").glob("*.ckpt"))) >= 4


def test_a_folder_whose_tasks_file_is_elsewhere_says_where_to_go_on(capsys, monkeypatch):
    Path("aimless.py").write_text(AIMLESS)
    assert main(["train", "aimless.py:Aimless", "--budget-attempts", "1", "--device", "cpu", "--out", "here"]) == 0
    Path("there").mkdir()
    monkeypatch.chdir("there")
    assert main(["train", "../here", "--resume"]) == 2
    assert (
        "there is no file aimless.py here\nhint: go on with it from the folder in which it was begun" in capsys.readouterr().err
    )
