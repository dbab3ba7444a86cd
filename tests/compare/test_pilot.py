"""A pilot sets the target: a median over float32 on seeds of its own, made easier by a stated slack, kept in the protocol."""

import dataclasses
import functools
import json

import pytest

from tests.profile import FULL
from truestep import errors
from truestep.cli import main
from truestep.cli.compare import Command
from truestep.compare import Protocol, pilot, summarize
from truestep.compare.declare import Asked, declare
from truestep.compare.folder import Folder
from truestep.compare.kept import read_protocol, read_records
from truestep.compare.pilot import of_pilot, piloted
from truestep.compare.race import race
from truestep.compare.settings import settings_of, warmup_of
from truestep.compare.target import found
from truestep.run import train

ASKED = Asked(task="logistic", candidates=["fp32 clip=1", "bf16"], seeds=range(3))


def evaluated(*qualities):
    return [{"examples": 64, "completed": 1, "quality": quality, "train_seconds": 0.1} for quality in qualities]


@pytest.fixture
def runs_of(declare, ran):
    """A pilot's protocol and its records, one a quality list; the best quality of each is its last but one or its only."""

    def build(*qualities, direction="higher", budget_seconds=None, **changes):
        protocol = declare(
            target=None, stop_at_target=False, candidates=("fp32",), direction=direction, budget_seconds=budget_seconds
        )
        records = [
            ran(protocol, "fp32", 100 + index, status="budget", evaluations=evaluated(*each), **changes)
            for index, each in enumerate(qualities)
        ]
        return protocol, records[::-1]  # in whatever order they ended

    return build


@pytest.mark.parametrize(
    ("direction", "slack", "median", "target"),
    [("higher", 0.25, 0.625, 0.375), ("lower", 0.25, 0.25, 0.5), ("higher", 0.0, 0.625, 0.625), ("higher", None, 0.625, 0.61875)],
)
def test_the_target_is_the_median_of_the_best_qualities_and_easier_by_the_slack(runs_of, direction, slack, median, target):
    protocol, records = runs_of([0.5, 0.25], [1.0, 0.125], [0.625, 0.375], direction=direction)
    result = found(protocol, records, slack=slack)
    assert (
        list(result.best.items())
        == {
            "higher": [("100", 0.5), ("101", 1.0), ("102", 0.625)],
            "lower": [("100", 0.25), ("101", 0.125), ("102", 0.375)],
        }[direction]
    )
    assert (result.median, result.target) == (median, pytest.approx(target, rel=1e-12))
    assert (result.candidate, result.protocol_hash) == ("fp32", protocol.hash)


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"status": "diverged"}, False),
        ({"evaluations": evaluated("nan")}, False),
        ({"status": "crashed", "to_target": None}, True),
        ({"status": "crashed", "to_target": None, "total_seconds": 60.0}, False),
    ],
)
def test_a_pilot_with_a_run_that_failed_sets_no_target(runs_of, changes, again):
    protocol, records = runs_of([0.5], [0.5], [0.5], budget_seconds=60.0)
    records[1] |= changes
    with pytest.raises(errors.RunError, match="the pilot's run on seed 101 ended as") as caught:
        found(protocol, records, slack=None)
    assert ("--rerun-failed runs it again" in caught.value.hint) is again


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_a_median_of_zero_takes_a_slack_that_is_said(runs_of, direction):
    protocol, records = runs_of([0.0], [0.0], [0.5], direction=direction)
    with pytest.raises(errors.ProtocolError, match="median best is 0") as caught:
        found(protocol, records, slack=None)
    assert "--resume and --slack X" in caught.value.hint
    assert found(protocol, records, slack=0.125).target == (-0.125 if direction == "higher" else 0.125)


def test_a_pilot_that_sets_a_target_of_zero_says_how_to_go_on(runs_of):
    protocol, records = runs_of([0.5], [0.5], [0.5])
    with pytest.raises(errors.ProtocolError, match="a target of 0") as caught:
        declare(ASKED, pilot=found(protocol, records, slack=0.5))
    assert "--margin-quality" in caught.value.hint
    assert "--resume" in caught.value.hint


def test_a_pilot_declares_no_margin_of_quality_whatever_the_comparison_does():
    plain, said = (of_pilot(dataclasses.replace(ASKED, margin_quality=margin), runs=5) for margin in (None, 0.25))
    protocol = declare(plain)[1]
    assert protocol.margin_quality is None
    assert declare(said)[1].hash == protocol.hash
    assert Protocol.from_dict(json.loads(protocol.canonical())) == protocol


@pytest.mark.parametrize(("seeds", "first"), [(range(7), 100), ([0, 98], 100), ([3, 99], 101), ([500], 502)])
def test_no_seed_of_a_pilot_is_one_of_the_comparison_or_of_its_warm_ups(seeds, first):
    asked = of_pilot(dataclasses.replace(ASKED, seeds=seeds), runs=6)
    assert list(asked.seeds) == list(range(first, first + 6))
    assert not {*seeds, max(seeds) + 1} & set(asked.seeds)


@pytest.mark.parametrize(
    ("changes", "how", "named"),
    [
        ({}, {"runs": 4}, "a pilot of 4 runs sets no target"),
        ({"target": 0.5}, {}, "both set the target"),
        ({"candidates": ["bf16", "fp32"]}, {}, "'bf16' is not in float32"),
        ({}, {"slack": -0.1}, "a slack of -0.1"),
        ({}, {"slack": float("nan")}, "a slack of nan"),
        ({"candidates": ["fp32", "fp16 accumulate=9999"]}, {}, "microbatches"),
    ],
)
def test_what_can_set_no_target_is_refused_before_anything_runs(tmp_path, changes, how, named):
    with pytest.raises(errors.UsageError, match=named):
        piloted(dataclasses.replace(ASKED, **changes), tmp_path / "out", **{"runs": 5, "slack": None} | how)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def stood_in(monkeypatch, ran):
    """Runs that a stand-in makes, whose list is returned as it grows."""
    made = []

    def runs(task, folder, slots, hear):
        for slot in slots:
            made.append((slot.candidate, slot.seed))
            changes = {"evaluations": evaluated(slot.seed / 1024), "initial_digest": None}
            yield slot, ran(folder.protocol, slot.candidate, slot.seed, status="budget", **changes)

    monkeypatch.setattr(pilot, "race", functools.partial(race, runs=runs))
    return made


def test_a_pilot_runs_the_baseline_alone_and_once_and_the_protocol_states_what_it_found(tmp_path, stood_in):
    result = piloted(ASKED, tmp_path, runs=5, slack=0.5)
    assert stood_in == [("fp32 clip=1", seed) for seed in range(100, 105)]
    _, protocol = declare(ASKED, pilot=result)
    assert (protocol.target, protocol.pilot) == (102 / 1024 + 0.5, result.as_dict())
    assert protocol.pilot["protocol_hash"] == read_protocol(tmp_path / "pilot").hash
    assert "a pilot of 5 runs of fp32 clip=1 on seeds 100 to 104" in protocol.target_from
    assert Protocol.from_dict(json.loads(protocol.canonical())) == protocol
    (note,) = (note.text for note in summarize(protocol, []).notes if note.kind == "target")
    assert note == f"Target: log loss in nats {protocol.target:g}, set by {protocol.target_from}."

    with pytest.raises(errors.RecordError, match="holds this pilot already, 5 of 5 runs") as caught:
        piloted(ASKED, tmp_path, runs=5, slack=0.5)
    assert "truestep report" not in caught.value.hint, "which would refuse a pilot"
    assert "--resume goes on to the comparison" in caught.value.hint
    assert piloted(ASKED, tmp_path, runs=5, slack=0.5, resume=True) == result
    assert len(stood_in) == 5, "none has run again"


def test_a_pilots_run_meets_no_target_however_easy_the_tasks_is():
    task, protocol = declare(of_pilot(dataclasses.replace(ASKED, budget_attempts=2), runs=5))
    task.target = 1e9  # of a loss
    warm, settings = warmup_of(protocol, protocol.baseline), settings_of(protocol, protocol.baseline)
    for record in (
        train(task, warm, seed=100),
        train(task, dataclasses.replace(settings, evaluate_every=protocol.batch), seed=100),
    ):
        assert (record.status, record.to_target, record.evaluations != ()) == ("budget", None, True)


def test_a_comparison_whose_target_no_pilot_has_set_is_not_given_one_later(tmp_path, stood_in):
    Folder.opened(tmp_path, declare(ASKED)[1], resume=False)
    with pytest.raises(errors.RecordError, match="whose target no pilot has set"):
        piloted(ASKED, tmp_path, runs=5, slack=None)
    assert stood_in == []


def test_a_pilot_alone_is_no_comparison_to_report(tmp_path, stood_in, capsys):
    piloted(ASKED, tmp_path, runs=5, slack=None)
    assert main(["report", str(tmp_path / "pilot")]) == 3
    assert f"name that one's folder, {tmp_path}" in capsys.readouterr().err


def test_a_declared_target_is_named_as_such():
    _, protocol = declare(ASKED)
    assert protocol.pilot is None
    (note,) = (note.text for note in summarize(protocol, []).notes if note.kind == "target")
    assert note == "Target: log loss in nats 0.2, declared by the task."


def test_a_slack_without_a_pilot_is_refused_and_both_are_said_again_to_go_on(capsys):
    assert main(["compare", "logistic", "--slack", "0.1"]) == 2
    assert "--slack is a pilot's" in capsys.readouterr().err
    line = Command(task="logistic", pilot=5, slack=0.1).command()
    assert line == "truestep compare logistic --pilot 5 --slack 0.1 --resume"


@pytest.mark.skipif(not FULL, reason="seven processes: TRUESTEP_FULL=1")
def test_the_command_runs_the_pilot_and_then_the_race_to_its_target(tmp_path, capsys):
    words = ["compare", "logistic", "--candidates", "fp32", "bf16", "--seeds", "1", "--pilot", "5", "--out", str(tmp_path)]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err.count("/5  fp32, seed 10") == 5
    protocol = read_protocol(tmp_path)
    assert protocol.target == pytest.approx(1.01 * 0.1854, abs=1e-4)
    assert f"set by {protocol.target_from}." in out
    assert [record["status"] for record in read_records(tmp_path)] == ["reached", "reached"]
    assert main([*words, "--resume"]) == 0
    assert capsys.readouterr().err == ""
