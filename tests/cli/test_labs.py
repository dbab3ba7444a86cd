"""`truestep labs`: what is asked is kept before more is asked, grades come from the run, and a terminal is no condition."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime

import pytest

from tests.hearing import HEARING
from tests.labs.asking import made
from truestep.cli import main
from truestep.labs import shelf
from truestep.labs.asking import running
from truestep.labs.asking.order import mixed
from truestep.labs.asking.progress import read
from truestep.labs.asking.sheet import options

LOOP = """import torch
from torch.nn.utils import clip_grad_norm_
def train(model, optimizer, scaler, loss, batches, limit):
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = loss(model, batch)
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.fixture
def one_lab(monkeypatch):
    """The shelf holds the lab of the tests alone."""
    monkeypatch.setattr(shelf, "labs", lambda: (made.LAB,))


@pytest.fixture
def typed(monkeypatch):
    """What stdin holds."""
    return lambda *lines: monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def session_lines(loop):
    """Right answers to every exercise of the lab, as lines, each with confidence 4."""
    items = mixed(list(made.BUCKETS), name="made/buckets", day=datetime.now().astimezone().date())
    answers = {
        "number": ["1/5"],
        "endless": ["inf"],
        "choice": ["its length"],
        "out": ["nothing", "its direction"],
        "bits": ["10", "23"],
        "spread": ["1 2", "0.5 4"],
        "name": ["float16", "float32"],
        "buckets": [made.BUCKETS[item] for item in items],
        "find": ["6"],
        "build": [str(loop)],
        "open": ["this and that", ""],
    }
    return [line for key in made.ASKS for line in (*answers[key], "4")]


def test_a_whole_session_over_every_kind_is_right_and_kept(one_lab, typed, tmp_path, capsys):
    loop = tmp_path / "my_loop.py"
    loop.write_text(LOOP)
    typed(*session_lines(loop), "yes", "no")
    path = tmp_path / "labs.jsonl"
    assert main(["labs", "made", "--ask", "--progress-file", str(path)]) == 0
    out, err = capsys.readouterr()
    kept = read(path).answered
    assert [each.name.partition("/")[2] for each in kept] == list(made.ASKS)
    assert [each.all_right for each in kept] == [True] * 10 + [False], out
    assert {each.confidence for each in kept} == {4}
    assert kept[-1].answer == {"text": "this and that", "points": [True, False]}
    assert out.count("Right.") == 10
    assert out.index("A strong answer") > out.index("Why?")
    assert "11 answers of this session are kept" in err


def test_what_cannot_be_read_is_asked_again_and_skip_leaves_one_out(one_lab, typed, tmp_path, capsys):
    path = tmp_path / "labs.jsonl"
    typed("a lot", "", "1,5", "0.2", "9", "5", "skip")
    assert main(["labs", "made", "--ask", "--progress-file", str(path)]) == 0
    err = capsys.readouterr().err
    assert "'a lot' cannot be read as a number" in err
    assert "skip leaves this one out" in err
    assert "'9' is no confidence" in err
    assert "1 answer of this session is kept" in err
    assert [each.name for each in read(path).answered] == ["made/number"]


def test_the_first_prompt_says_how_to_skip_and_to_end_and_a_question_mark_says_it_again(one_lab, typed, tmp_path, capsys):
    typed("?", "skip")
    main(["labs", "made", "--ask", "--progress-file", str(tmp_path / "labs.jsonl")])
    err = capsys.readouterr().err
    assert err.index("Ctrl-D ends the session") < err.index("number")
    assert err.count("skip leaves the exercise out") == 2


def test_an_answer_without_a_confidence_is_said_to_be_dropped(one_lab, typed, tmp_path, capsys):
    path = tmp_path / "labs.jsonl"
    typed("0.2")
    assert main(["labs", "made", "--ask", "--progress-file", str(path)]) == 0
    err = capsys.readouterr().err
    assert "the answer to made/number was read, but not how sure you are: it is neither graded nor kept" in err
    assert "0 answers of this session are kept" in err
    assert read(path).answered == ()


def test_options_are_named_by_numbers_too_and_ruled_out_in_one_line(one_lab, typed, tmp_path, capsys):
    path, today = tmp_path / "labs.jsonl", datetime.now().astimezone().date()
    place = {text: str(at) for at, text in enumerate(options("made/choice", made.ASKS["choice"], today), 1)}
    out = {text: "abc"[at] for at, text in enumerate(options("made/out", made.ASKS["out"], today))}
    every = " ".join("abc")
    both = f"{out['nothing']}, {out['its direction']}"
    typed("skip", "skip", place["its length"], "4", every, f"{out['nothing']} {out['nothing']}", both, "4")
    main(["labs", "made", "--ask", "--progress-file", str(path)])
    err = capsys.readouterr().err
    assert [(each.name, each.right) for each in read(path).answered] == [("made/choice", True), ("made/out", True)], err
    assert "or a list of 2 letters, the surest first" in err
    assert "that rules out all of them" in err
    assert "'nothing' is ruled out already" in err


def test_nothing_is_told_before_the_confidence_is_given(one_lab, typed, tmp_path, capsys):
    typed("1")
    main(["labs", "made", "--ask", "--progress-file", str(tmp_path / "labs.jsonl")])
    out = capsys.readouterr().out
    assert "What is reached?" in out
    assert "unscaled first" not in out


def test_a_session_over_all_brings_back_the_wrong_one_first_then_what_is_new(one_lab, typed, tmp_path, capsys):
    path = tmp_path / "labs.jsonl"
    typed("1/5", "5", "12", "5")
    main(["labs", "--ask", "--progress-file", str(path)])
    out = capsys.readouterr().out
    assert "[1 of 11] Every kind (made/number)" in out, "nothing is known of the learner yet"
    typed()
    main(["labs", "--ask", "--progress-file", str(path)])
    out = capsys.readouterr().out
    assert "[1 of 10]" in out, "of eleven one was right with confidence"
    assert "(made/endless); it was not right the last time" in out


def test_lines_are_no_wider_than_the_terminal(one_lab, typed, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    typed("7", "2")
    main(["labs", "made", "--ask", "--progress-file", str(tmp_path / "labs.jsonl")])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 40
    assert "\x1b" not in out


def test_a_lab_has_its_lines_broken_at_a_terminal_and_nowhere_else(capsys, monkeypatch):
    claim = shelf.lab("clip-order").claim
    monkeypatch.setenv("COLUMNS", "40")
    main(["labs", "clip-order"])
    assert f"\n{claim}\n" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    main(["labs", "clip-order"])
    said = capsys.readouterr().out
    assert claim not in said
    assert claim in said.replace("\n", " ")
    assert max(map(len, said.partition("\x1b")[0].splitlines())) <= 40, "all before the first table's bold title"


def answers_file(tmp_path, given, confidence=4):
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({f"made/{key}": {"answer": answer, "confidence": confidence} for key, answer in given.items()}))
    return str(path)


@pytest.mark.parametrize(("given", "right"), [(made.RIGHT, True), (made.WRONG, False)])
def test_a_file_of_answers_is_graded_and_a_wrong_one_is_no_failure(one_lab, tmp_path, capsys, given, right):
    path = answers_file(tmp_path, {**given, "find": 6 if right else 1})
    assert main(["labs", "--answers", path, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["points"] == row["total"] for row in document["graded"].values()} == {right}
    assert document["unanswered"] == ["made/build"]
    assert document["unread"] == {}


def test_letters_of_a_file_are_those_of_the_sheet(one_lab, tmp_path, capsys):
    letter = "abc"[options("made/choice", made.ASKS["choice"], None).index("its length")]
    assert main(["labs", "--ask", "--json"]) == 0
    sheet = json.loads(capsys.readouterr().out)["questions"]
    assert sheet["made/choice"]["options"][letter] == "its length"
    assert main(["labs", "--answers", answers_file(tmp_path, {"choice": letter}), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["graded"]["made/choice"]["right"]


def test_what_cannot_be_read_in_a_file_is_told_and_the_rest_graded(one_lab, tmp_path, capsys):
    assert main(["labs", "--answers", answers_file(tmp_path, {"number": "much", "choice": "its length"})]) == 0
    out, err = capsys.readouterr()
    assert "1 of 11 exercises graded" in out
    assert "made/number is not graded: 'much' cannot be read as a number" in err


def test_a_file_that_answers_name_is_run_only_where_that_was_said(one_lab, tmp_path, capsys):
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + LOOP)
    path = answers_file(tmp_path, {"build": "theirs.py"})
    main(["labs", "--answers", path, "--json"])
    assert "--run-files" in json.loads(capsys.readouterr().out)["unread"]["made/build"]
    assert not (tmp_path / "ran").exists()
    main(["labs", "--answers", path, "--run-files", "--json"])
    assert json.loads(capsys.readouterr().out)["graded"]["made/build"]["right"]
    assert (tmp_path / "ran").exists()


def test_a_check_that_could_not_run_is_no_grade(one_lab, tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text(LOOP)
    monkeypatch.setattr(running, "PROGRAM", "truestep.labs.asking.nowhere")
    assert main(["labs", "--milestone", "1", "--file", str(tmp_path / "mine.py")]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "mine.py is run, with all that it does, for at most 120 s" in err
    assert "the check could not run" in err
    path = answers_file(tmp_path, {"number": 0.2, "build": "mine.py"})
    assert main(["labs", "--answers", path, "--run-files", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert "could not run" in document["unread"]["made/build"]
    assert list(document["graded"]) == ["made/number"]


def test_a_file_that_is_not_there_is_not_said_to_be_run(capsys):
    assert main(["labs", "--milestone", "1", "--file", "none.py"]) == 2
    assert "is run" not in capsys.readouterr().err


def test_a_name_that_is_nearly_right_is_shown_alone(capsys):
    assert main(["labs", "bit"]) == 2
    err = capsys.readouterr().err
    assert "did you mean " in err
    assert "clip-order" not in err


def test_answers_of_a_file_are_kept_where_a_place_was_given(one_lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, kept = answers_file(tmp_path, {"number": 0.2, "open": "this"}), tmp_path / "kept.jsonl"
    main(["labs", "--answers", path])
    assert not (tmp_path / "state").exists()
    main(["labs", "--answers", path, "--progress-file", str(kept)])
    assert [each.name for each in read(kept).answered] == ["made/number"]
    assert "not kept, for want of a confidence or of points: made/open" in capsys.readouterr().err


def test_progress_tells_marks_counts_and_where_confidence_and_correctness_part(one_lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = str(tmp_path / "truestep" / "labs.jsonl")
    wrong = {key: made.WRONG[key] for key in ("number", "endless", "choice", "bits")}
    main(["labs", "--answers", answers_file(tmp_path, wrong, confidence=5), "--progress-file", kept])
    capsys.readouterr()
    assert main(["labs", "--progress"]) == 0
    out = capsys.readouterr().out
    assert "due 4" in out
    assert "of 4 answers given with confidence 5, 0 were right: surer than right" in out
    assert main(["labs", "--progress", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["labs"]["made"] == {"topic": "formats", "mark": "due 4", "exercises": 11, "answered": 4, "right": 0, "due": 4}
    assert document["by_confidence"][4]["wilson_95"] == pytest.approx([0.0, 0.4899], abs=1e-4)
    assert document["by_confidence"][0] == {"confidence": 1, "answers": 0, "right": 0, "share": None, "wilson_95": None}
    assert main(["labs"]) == 0
    assert "due" not in capsys.readouterr().out, "the list is the same for everyone"


def test_a_milestone_prints_its_file_and_checks_yours(tmp_path, capsys):
    assert main(["labs", "--milestone", "1"]) == 0
    path = tmp_path / "my_loop.py"
    path.write_text(capsys.readouterr().out)
    assert main(["labs", "--milestone", "1", "--file", str(path), "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["passed"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ask", "--progress"], "different things"),
        (["made", "--ask", "--check"], "different things"),
        (["--all", "--ask"], "different things"),
        (["--run-files"], "--answers"),
        (["--progress-file", "x"], "--ask"),
        (["--file", "x.py"], "--milestone"),
        (["made", "--milestone", "1"], "--milestone prints"),
        (["--milestone", "1", "--json"], "--milestone prints"),
        (["--milestone", "1", "--file", "none.py"], "no file none.py"),
        (["nowhere", "--ask"], "no lab called"),
    ],
)
def test_what_means_nothing_together_is_a_usage_error(one_lab, capsys, words, said):
    assert main(["labs", *words]) == 2
    assert said in capsys.readouterr().err


class Terminal:
    """`truestep labs ...` in a process of its own, at a terminal that it may be interrupted by."""

    def __init__(self, *words):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "COLUMNS": "72", "NO_COLOR": "1", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
            os.execve(sys.executable, [sys.executable, "-c", HEARING, "-m", "truestep", "labs", *words], environment)
        self.seen = ""

    def until(self, words):
        """Reads until they were seen, behind what was waited for before."""
        begun = time.monotonic()
        while words not in self.seen:
            if time.monotonic() - begun > 120:
                raise TimeoutError(self.seen)
            if select.select([self.terminal], [], [], 1.0)[0]:
                self.seen += os.read(self.terminal, 65536).decode()
        before, _, self.seen = self.seen.partition(words)
        return before

    def answer(self, prompt, words):
        """Waits for a prompt and types."""
        before = self.until(prompt)
        os.write(self.terminal, words.encode())
        return before

    def ended(self):
        """The rest of what was printed, and the exit code; one that still waits for words is killed."""
        with suppress(OSError):  # Linux's way to say that the other end is closed
            while select.select([self.terminal], [], [], 120)[0]:
                self.seen += os.read(self.terminal, 65536).decode()
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.terminal)
        return self.seen, os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_session_at_a_terminal(tmp_path):
    path = tmp_path / "labs.jsonl"
    terminal = Terminal("clip-order", "--ask", "--progress-file", str(path))
    terminal.answer("number: ", "1/1024\r")
    terminal.answer("certain)? ", "5\r")
    told = terminal.answer("letter: ", "its length\r")
    assert "Not right." in told
    assert "Your 0.0009765625" in told
    terminal.answer("certain)? ", "2\r")
    rest = terminal.answer("empty line: ", "\x04")  # the last exercise is left
    last, code = terminal.ended()
    assert code == 0
    assert "Right." in rest
    assert "\x1b" not in told + rest + last
    assert [(each.right, each.confidence) for each in read(path).answered] == [(False, 5), (True, 2)]


def test_ctrl_c_keeps_what_was_answered(tmp_path):
    path = tmp_path / "labs.jsonl"
    terminal = Terminal("clip-order", "--ask", "--progress-file", str(path))
    terminal.answer("number: ", "0.2\r")
    terminal.answer("certain)? ", "4\r")
    terminal.answer("letter: ", "\x03")
    rest, code = terminal.ended()
    assert code == 130
    assert "1 answer of this session is kept" in rest
    assert "Traceback" not in rest
    assert [each.name for each in read(path).answered] == ["clip-order/right"]


def test_a_pipe_that_ends_keeps_what_was_answered(tmp_path):
    path = tmp_path / "labs.jsonl"
    command = [sys.executable, "-m", "truestep", "labs", "clip-order", "--ask", "--progress-file", str(path)]
    done = subprocess.run(command, input=b"\xff\n0.2\n5\nits", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert [each.right for each in read(path).answered] == [True]
