"""`truestep audit`: whose words are whose, what is printed where, what is written, and the exit codes."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.started import started
from truestep.audit.finding import Finding
from truestep.audit.process import Audited
from truestep.cli import main

ERROR = Finding(
    rule="ignore-unknown-rule",  # any rule that there is
    severity="error",
    path="train.py",
    line=2,
    message="the clip saw scaled gradients",
    damage="the update was 8 times too small",
    fix="unscale first",
)
WARNING = replace(ERROR, severity="warning", line=3)
NOTE = replace(ERROR, severity="note", line=3)
COVERAGE = {"windows": 4, "not_judged": []}


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    """A folder with train.py, where we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    path = tmp_path / "train.py"
    path.write_text("a()\nclip()\nstep()\n")
    return path


@pytest.fixture
def audited(monkeypatch):
    """Makes every audit find what it is given; returns a list of what each was asked."""
    asked = []

    def find(*findings, **fields):
        given = {
            "coverage": COVERAGE,
            "script": "train.py",
            "script_exit": 0,
            "interrupted": None,
            "traceback": None,
            "stories": (),
        }
        found = Audited(findings=findings, **given | fields)

        def audit(command, **options):
            asked.append((tuple(command), options))
            return found

        monkeypatch.setattr("truestep.audit.process.audit", audit)
        return asked

    return find


def audit(*words):
    return main(["audit", *words])


def document(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "command", "options"),
    [
        (["train.py"], ["train.py"], {}),
        (["--json", "train.py", "--epochs", "3"], ["train.py", "--epochs", "3"], {"stdout_to_stderr": True}),
        (["train.py", "--json", "--help", "-m", "--", "x"], ["train.py", "--json", "--help", "-m", "--", "x"], {}),
        (["--", "train.py", "--", "x"], ["train.py", "--", "x"], {}),
        (["-m", "package.train", "-m", "x"], ["package.train", "-m", "x"], {"module": True}),
        (["--module", "package.train"], ["package.train"], {"module": True}),
        (["--max-updates", "9", "train.py", "9"], ["train.py", "9"], {"max_updates": 9}),
        (["--max_updates", "9", "train.py", "9"], ["train.py", "9"], {"max_updates": 9}),
        (["--max-updates=9", "--device", "cpu", "train.py"], ["train.py"], {"max_updates": 9, "device": "cpu"}),
    ],
)
def test_what_follows_the_script_is_its_own_and_what_stands_before_is_ours(audited, words, command, options):
    asked = audited()
    assert audit(*words) == 0
    given = {"module": False, "max_updates": None, "device": None, "stdout_to_stderr": False}
    assert asked == [(tuple(command), given | options)]


def test_help_before_the_script_is_ours(audited, capsys):
    asked = audited()
    assert audit("--help") == 0
    assert audit("--json", "--help") == 0
    assert "SCRIPT [ARGS...]" in capsys.readouterr().out
    assert asked == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no script"),
        (["--json"], "no script"),
        (["--no-such", "train.py", "--epochs"], "--no-such"),
        (["--json", "--github", "train.py"], "both want stdout"),
        (["--max-updates", "0", "train.py"], "--max-updates 0"),
        (["--max-updates"], "--max-updates"),
        (["--device", "tpu", "train.py"], "tpu"),
        (["--explain", "unused-ignor"], "did you mean unused-ignore?"),
        (["--explain", "zzz"], "--rules lists them"),
    ],
)
def test_words_that_mean_nothing_are_explained_and_nothing_is_run(audited, capsys, words, complaint):
    asked = audited()
    assert audit(*words) == 2
    out, err = capsys.readouterr()
    assert (out, asked) == ("", [])
    assert complaint in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["gone.py"], "no script gone.py"),
        (["--baseline", "gone.json", "train.py"], "the baseline gone.json cannot be read"),
        (["--baseline", "train.py", "train.py"], "train.py is no baseline"),
        (["--sarif", "no/such/folder.sarif", "train.py"], "no/such/folder.sarif cannot be written"),
        (["--write-baseline", "no/such.json", "train.py"], "no/such.json cannot be written"),
    ],
)
def test_what_could_not_work_is_told_before_the_script_has_run(audited, capsys, words, complaint):
    asked = audited()
    assert audit(*words) == 3
    out, err = capsys.readouterr()
    assert (out, asked) == ("", [])
    assert complaint in err
    assert "hint: " in err


@pytest.mark.parametrize(
    ("findings", "script_exit", "fail_on", "code"),
    [
        ([], 0, "warning", 0),
        ([NOTE], 0, "warning", 0),
        ([WARNING], 0, "warning", 1),
        ([WARNING], 0, "error", 0),
        ([ERROR], 0, "error", 1),
        ([ERROR], 1, "warning", 1),
        ([NOTE], 1, "warning", 3),
        ([], 1, "warning", 3),
        ([], -9, "warning", 3),
        ([WARNING], 2, "error", 3),
    ],
)
def test_the_exit_code_is_the_findings_then_the_scripts_own_failure(audited, capsys, findings, script_exit, fail_on, code):
    audited(*findings, script_exit=script_exit)
    assert audit("--fail-on", fail_on, "train.py") == code
    assert ("no finding says why" in capsys.readouterr().err) == (code == 3)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_after_a_signal_what_was_seen_is_reported(audited, capsys, number, code):
    audited(ERROR, script_exit=-number, interrupted=number)
    assert audit("--sarif", "found.sarif", "--json", "train.py") == code
    out, err = capsys.readouterr()
    assert (json.loads(out)["exit_code"], len(json.loads(out)["findings"])) == (code, 1)
    assert f"train.py was ended by {number.name}" in err
    assert json.loads(Path("found.sarif").read_text())["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_a_script_that_failed_is_told_with_its_last_words(audited, capsys):
    audited(script_exit=1, traceback="Traceback (most recent call last):\n  ...\nValueError: no data\n")
    assert audit("train.py") == 3
    out, err = capsys.readouterr()
    assert out == "0 errors, 0 warnings, 0 notes\n"
    assert err == "train.py ended with exit code 1: ValueError: no data; no finding says why\n"


HINT = "hint: --device cpu"
NO_CUDA = "Traceback ...\nAssertionError: Torch not compiled with CUDA enabled\n"


@pytest.mark.parametrize(
    ("text", "command", "ended", "hinted"),
    [
        ("model.cuda()", (), {"script_exit": 1, "traceback": NO_CUDA}, True),
        ("model.cuda()", ("--device", "cpu"), {"script_exit": 1, "traceback": NO_CUDA}, False),
        ("assert torch.cuda.is_available() or sys.exit(1)", (), {"script_exit": 1}, True),
        ("import nothing", (), {"script_exit": 1}, False),
        ("parser.add_argument('--cuda')", (), {"script_exit": 2}, False),
        ("parser.parse_args()", ("--device", "cpu"), {"script_exit": 2}, False),
    ],
)
def test_the_processor_is_offered_only_where_it_can_help(audited, script, capsys, text, command, ended, hinted):
    script.write_text(text)
    audited(**ended)
    audit(*command, "train.py")
    assert (HINT in capsys.readouterr().err) == hinted


COUNTS = {"attempts": 20, "completed": 20, "skipped": 0, "windows_judged": 16, "windows_without_events": 0}


def test_a_report_without_faults_says_how_much_was_judged(audited, capsys):
    audited(NOTE, coverage=COVERAGE | COUNTS)
    audit("train.py")
    judged, last = capsys.readouterr().out.splitlines()[-2:]
    assert judged == "judged: 16 of 20 windows number by number, 20 of 20 attempts by the order of their calls"
    assert last == "0 errors, 0 warnings, 1 note"
    audited(WARNING, coverage=COVERAGE | COUNTS)
    audit("train.py")
    assert "judged" not in capsys.readouterr().out


def test_the_report_is_each_finding_and_a_summary(audited, capsys):
    audited(ERROR, NOTE, coverage={"not_judged": [{"what": "the compiled step", "why": "its calls are hidden"}]})
    assert audit("train.py") == 1
    assert capsys.readouterr() == (
        "train.py:2: error: ignore-unknown-rule: the clip saw scaled gradients\n"
        "  damage: the update was 8 times too small\n"
        "  fix: unscale first\n"
        "\n"
        "train.py:3: note: ignore-unknown-rule: the clip saw scaled gradients\n"
        "  damage: the update was 8 times too small\n"
        "  fix: unscale first\n"
        "\n"
        "1 error, 0 warnings, 1 note; not judged: the compiled step (its calls are hidden)\n",
        "",
    )


def test_paths_are_told_from_where_we_are(audited, script, capsys):
    audited(replace(ERROR, path=str(script)))
    audit("train.py")
    assert capsys.readouterr().out.startswith("train.py:2: error")


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_a_terminal_gets_the_same_words_in_colour_unless_it_wants_none(audited, capsys, monkeypatch, no_color, coloured):
    audited(replace(ERROR, message="[bold]:smile: " + "long " * 40))
    audit("train.py")
    plain = capsys.readouterr().out
    assert plain.startswith("train.py:2: error: ignore-unknown-rule: [bold]:smile: " + "long " * 40)
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    audit("train.py")
    shown = capsys.readouterr().out
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == plain
    assert bool(re.search(r"\x1b\[[\d;]*31merror\x1b", shown)) == coloured


def test_json_is_one_document(audited, capsys):
    audited(ERROR, script_exit=1)
    assert audit("--json", "train.py") == 1
    made = document(capsys)
    assert (made["schema"], made["script"], made["exit_code"], made["script_exit"]) == (1, "train.py", 1, 1)
    assert made["findings"] == [ERROR.as_dict()]
    assert made["coverage"] == COVERAGE


def test_annotations_follow_the_report_and_begin_at_the_repository(audited, capsys, monkeypatch, tmp_path):
    audited(ERROR)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    assert audit("--github", "train.py") == 1
    *report, last = capsys.readouterr().out.splitlines()
    assert report[-1] == "1 error, 0 warnings, 0 notes"
    assert last.startswith(f"::error file={tmp_path.name}/train.py,line=2,title=truestep ignore-unknown-rule::the clip saw")


def test_sarif_is_written_beside_the_report(audited, capsys):
    audited(ERROR)
    assert audit("--sarif", "found.sarif", "train.py") == 1
    (result,) = json.loads(Path("found.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("ignore-unknown-rule", "error")
    assert capsys.readouterr().out.endswith("1 error, 0 warnings, 0 notes\n")


def test_a_baseline_makes_known_what_was_found_and_fails_for_what_is_new(audited, script, capsys):
    audited(ERROR, NOTE)
    assert audit("--write-baseline", "known.json", "train.py") == 0
    assert capsys.readouterr().out.endswith("0 errors, 0 warnings, 1 note; 1 known\n")
    script.write_text("import x\na()\nclip()\nstep()\n")
    audited(replace(ERROR, line=3), WARNING)
    assert audit("--baseline", "known.json", "--json", "train.py") == 1
    made = document(capsys)
    assert ([each["severity"] for each in made["findings"]], made["known"]) == (["warning"], 1)


def test_a_baseline_that_is_renewed_keeps_what_is_still_found(audited, capsys):
    audited(ERROR, WARNING)
    audit("--write-baseline", "known.json", "train.py")
    audited(ERROR)
    assert audit("--baseline", "known.json", "--write-baseline", "known.json", "train.py") == 0
    assert len(json.loads(Path("known.json").read_text())["findings"]) == 1


def test_half_a_run_writes_no_baseline(audited, capsys):
    audited(ERROR, interrupted=signal.SIGINT, script_exit=1)
    assert audit("--write-baseline", "known.json", "train.py") == 130
    assert not Path("known.json").exists()
    assert "known.json is not written" in capsys.readouterr().err


def test_a_remark_with_a_reason_passes_a_finding_over(audited, script, capsys):
    script.write_text("a()\nclip()  # truestep: ignore[ignore-unknown-rule] in scaled units\n")
    audited(ERROR)
    assert audit("train.py") == 0
    assert capsys.readouterr().out == "0 errors, 0 warnings, 0 notes; 1 ignored\n"


def test_a_remark_without_one_is_a_finding_itself(audited, script, capsys):
    script.write_text("a()\nclip()  # truestep: ignore[ignore-unknown-rule]\n")
    audited()
    assert audit("--json", "train.py") == 1
    assert [each["rule"] for each in document(capsys)["findings"]] == ["ignore-without-reason"]


def test_the_rules_are_listed_and_explained_without_a_script(capsys):
    assert audit("--rules") == 0
    listed = capsys.readouterr().out
    assert audit("--rules", "--json") == 0
    rules = document(capsys)["rules"]
    assert "unused-ignore" in [rule["id"] for rule in rules]
    assert all(re.search(rf"^{rule['id']} +{re.escape(rule['title'])}", listed, re.MULTILINE) for rule in rules)
    for rule in rules:
        assert audit("--explain", rule["id"]) == 0
        assert capsys.readouterr().out.startswith(f"{rule['id']}: {rule['title']}\n\nwhy:\n")
    assert audit("--explain", "unused-ignore", "--json") == 0
    assert [rule["id"] for rule in document(capsys)["rules"]] == ["unused-ignore"]


CLIPS_TOO_EARLY = """import sys
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(4):
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(2, 4)).mean()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print("stepped", sys.argv[1:], flush=True)
"""
GOES_ON = CLIPS_TOO_EARLY.replace("range(4)", "iter(int, 1)")  # for ever


def test_the_scripts_own_output_comes_first_and_the_report_behind_it(script):
    script.write_text(CLIPS_TOO_EARLY)
    running = started("audit", "train.py", "--json")
    out, err = running.communicate()
    assert (running.returncode, err) == (1, "--json: the option is given to train.py; the audit's own stand before it\n")
    assert out.startswith("stepped ['--json']\n" * 4 + "train.py:9: error: clip-before-unscale: ")
    assert out.endswith("\n1 error, 0 warnings, 0 notes\n")


def test_ctrl_c_ends_the_script_and_what_it_did_is_judged_in_one_document(script):
    script.write_text(GOES_ON)
    running = started("audit", "--json", "train.py")
    for _ in range(8):
        assert running.stderr.readline() == "stepped []\n", "what the script prints is talk"
    os.killpg(running.pid, signal.SIGINT)  # as a terminal tells all its processes
    out, err = running.communicate()
    assert (running.returncode, json.loads(out)["exit_code"]) == (130, 130)
    assert [(each["rule"], each["line"]) for each in json.loads(out)["findings"]] == [("clip-before-unscale", 9)]
    assert err.endswith("train.py was ended by SIGINT; the findings are of what it did until then\n")
