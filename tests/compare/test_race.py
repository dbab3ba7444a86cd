"""The race: order by trace, records before the next run, going on after any end."""

import pytest

from truestep import errors
from truestep.compare.death import AGAIN
from truestep.compare.folder import Folder
from truestep.compare.kept import read_records
from truestep.compare.order import order
from truestep.compare.race import race

NONE_RECORDED = "no run has been recorded: ask again, with another --out if the task's code has changed"


@pytest.fixture
def runner(ran):
    """A stand-in for the processes that leaves a trace; `at` maps the number of a run, from 1, to what it does instead."""

    class Runner:
        def __init__(self, at=None, **changes):
            self.at, self.changes = at or {}, changes
            self.trace, self.on_disk = [], []

        def __call__(self, task, folder, slots, hear):
            for slot in slots:
                self.trace.append(f"{slot.candidate}/{slot.seed}")
                self.on_disk.append(len(read_records(folder.path)))
                folder.set_aside(slot)
                folder.ledger(slot).write_text(f"begun by run {len(self.trace)}\n")
                folder.log(slot).write_text(f"run {len(self.trace)}\n")
                hear(slot, {"kind": "attempt"})
                status = self.at.get(len(self.trace), "reached")
                if isinstance(status, BaseException):
                    raise status
                yield slot, ran(folder.protocol, slot.candidate, slot.seed, status=status) | self.changes

    return Runner


@pytest.fixture
def opened(declare, tmp_path):
    """The folder of a comparison of three candidates on two seeds."""

    def build(*, resume=False, **changes):
        weights = {"3": "a" * 64, "5": "b" * 64}
        protocol = declare(**{"candidates": ("fp32", "bf16", "fp16"), "seeds": (3, 5), "initial_weights": weights} | changes)
        return Folder.opened(tmp_path / "out", protocol, resume=resume)

    return build


RUNS = ["fp32/3", "bf16/3", "fp16/3", "bf16/5", "fp16/5", "fp32/5"]


def names(records):
    return [f"{record['candidate']}/{record['seed']}" for record in records]


def test_seed_by_seed_with_rotated_candidates(opened, runner):
    runs = runner()
    race(None, opened(), runs=runs)
    assert runs.trace == RUNS


def test_each_record_is_on_disk_before_the_next_run_starts(opened, runner):
    folder, runs = opened(), runner()
    race(None, folder, runs=runs)
    assert runs.on_disk == [0, 1, 2, 3, 4, 5]
    assert names(read_records(folder.path)) == RUNS
    assert folder.records == read_records(folder.path)


def test_runs_that_fail_have_their_record_and_the_race_goes_on(opened, runner):
    folder = opened()
    failing = {1: "diverged", 3: "out of memory", 4: "crashed", 5: "timed out", 6: "stalled"}
    race(None, folder, runs=runner(failing))
    assert [record["status"] for record in folder.records] == [
        *("diverged", "reached", "out of memory", "crashed", "timed out", "stalled")
    ]


@pytest.mark.parametrize("call", range(1, 7))
def test_an_interrupted_race_goes_on_with_what_is_missing_and_nothing_else(opened, runner, call):
    with pytest.raises(KeyboardInterrupt):
        race(None, opened(), runs=runner({call: KeyboardInterrupt()}))
    folder, runs = opened(resume=True), runner()
    assert len(folder.records) == call - 1
    race(None, folder, runs=runs)
    left = RUNS[call - 1 :]
    assert runs.trace == left
    assert names(read_records(folder.path)) == RUNS
    assert folder.interrupted() == [f"{left[0].replace('/', '-seed')}.interrupted-1.jsonl"]


def test_a_finished_race_runs_nothing_whatever_has_failed(opened, runner):
    race(None, opened(), runs=runner({2: "crashed", 3: "error", 4: "timed out"}))
    runs = runner()
    race(None, opened(resume=True), runs=runs)
    assert runs.trace == []


def test_on_request_what_failed_by_its_process_is_run_again_in_its_place_and_nothing_else_is(opened, runner):
    failing = {2: "crashed", 3: "error", 4: "timed out", 5: "diverged", 6: "out of memory"}
    race(None, opened(), runs=runner(failing))
    folder, runs = opened(resume=True), runner()
    race(None, folder, rerun_failed=True, runs=runs)
    assert runs.trace == [RUNS[1], RUNS[2], RUNS[3], RUNS[5]]
    assert names(read_records(folder.path)) == RUNS
    assert [record["status"] for record in read_records(folder.path)] == [*["reached"] * 4, "diverged", "reached"]
    assert folder.interrupted() == []
    assert (folder.path / "ledgers" / "bf16-seed3.jsonl").read_text() == "begun by run 2\n", "the failed try's, untouched"
    assert (folder.path / "ledgers" / "bf16-seed3.try-2.jsonl").read_text() == "begun by run 1\n"


def test_a_run_whose_failures_have_spent_its_budget_is_not_run_again(opened, runner):
    race(None, opened(), runs=runner({2: "crashed"}, total_seconds=20.0))
    runs = runner()
    race(None, opened(resume=True), rerun_failed=True, runs=runs)
    assert runs.trace == []


def test_until_it_has_ended_a_run_that_is_made_again_keeps_its_first_record_ledger_and_log(opened, runner):
    race(None, opened(), runs=runner({2: "crashed"}))
    with pytest.raises(KeyboardInterrupt):
        race(None, opened(resume=True), rerun_failed=True, runs=runner({1: KeyboardInterrupt()}))
    folder = opened(resume=True)
    assert folder.records[1]["status"] == "crashed"
    assert (folder.path / folder.records[1]["ledger"]).read_text() == "begun by run 2\n"
    assert (folder.path / "logs" / "bf16-seed3.txt").read_text() == "run 2\n"
    runs = runner()
    race(None, folder, runs=runs)
    assert runs.trace == []


def test_an_interrupted_rerun_is_filed_as_interrupted_and_each_try_that_ended_under_its_own_number(opened, runner):
    race(None, opened(), runs=runner({2: "crashed"}))
    with pytest.raises(KeyboardInterrupt):
        race(None, opened(resume=True), rerun_failed=True, runs=runner({1: KeyboardInterrupt()}))
    folder = opened(resume=True)
    race(None, folder, rerun_failed=True, runs=runner(process={"earlier": [{"status": "crashed"}]}))
    assert folder.interrupted() == ["bf16-seed3.try-2.interrupted-1.jsonl"]
    again = next(slot for slot in order(folder.protocol.candidates, (3,)) if slot.candidate == "bf16")
    assert folder.ledger(again).name == "bf16-seed3.try-3.jsonl"
    assert {path.name for path in (folder.path / "logs").glob("bf16-seed3.*")} == {
        *("bf16-seed3.txt", "bf16-seed3.try-2.txt", "bf16-seed3.try-2.interrupted-1.txt")
    }


@pytest.mark.parametrize("status", ["error", "crashed"])
def test_a_baseline_that_cannot_be_run_ends_the_race_before_any_record(opened, runner, status):
    folder = opened()
    first = runner({1: status}, counts={"attempts": 2}, detail="no such thing", hint=None)
    with pytest.raises(errors.RunError, match="baseline fp32 cannot be run: no such thing") as caught:
        race(None, folder, runs=first)
    assert caught.value.hint == f"mend the task; {NONE_RECORDED}"
    assert read_records(folder.path) == []


def test_a_baseline_that_truestep_itself_refuses_keeps_the_hint(opened, runner):
    first = runner({1: "error"}, counts={"attempts": 0}, hint="define weight(self, microbatch) in the task")
    with pytest.raises(errors.RunError) as caught:
        race(None, opened(), runs=first)
    assert caught.value.hint == f"define weight(self, microbatch) in the task; {NONE_RECORDED}"


def test_a_baseline_whose_process_dies_as_it_begins_is_not_told_to_be_run_again_without_a_record(opened, runner):
    hint = f"its output is in logs/fp32-seed3.txt{AGAIN}"
    with pytest.raises(errors.RunError) as caught:
        race(None, opened(), runs=runner({1: "crashed"}, counts={"attempts": 0}, hint=hint))
    assert caught.value.hint == f"its output is in logs/fp32-seed3.txt; {NONE_RECORDED}"


def test_a_baseline_that_fails_on_its_way_is_a_result(opened, runner):
    folder = opened()
    race(None, folder, runs=runner({1: "error"}))
    assert [record["status"] for record in folder.records] == ["error", *["reached"] * 5]


def test_a_run_from_other_weights_than_declared_is_refused(opened, runner):
    folder = opened()
    with pytest.raises(errors.RunError, match="fp32, seed 3: the run started from other weights") as caught:
        race(None, folder, runs=runner(initial_digest="e" * 64))
    assert (caught.value.declared, caught.value.found) == ("a" * 64, "e" * 64)
    assert read_records(folder.path) == []


def test_a_run_on_other_data_than_declared_is_refused(opened, runner):
    folder = opened()
    with pytest.raises(errors.RunError, match=r"fp32, seed 3: the run's data are not those") as caught:
        race(None, folder, runs=runner(data_digest="e" * 64))
    assert (caught.value.declared, caught.value.found) == ("d" * 64, "e" * 64)
    assert read_records(folder.path) == []


def test_a_run_that_died_has_neither_weights_nor_data_to_differ(opened, runner):
    folder = opened()
    race(None, folder, runs=runner({2: "crashed"}, initial_digest=None, data_digest=None))
    assert len(folder.records) == 6


def test_what_a_ledger_cannot_write_passes_and_keeps_what_is_done(opened, runner):
    folder = opened()
    with pytest.raises(errors.LedgerError):
        race(None, folder, runs=runner({3: errors.LedgerError("disk full")}))
    assert len(read_records(folder.path)) == 2


def test_a_listener_hears_what_runs_say_and_their_end_after_the_record_is_kept(opened, runner):
    folder = opened(seeds=(3,), candidates=("fp32",))
    heard = []

    def listen(event):
        heard.append((event.slot.candidate, event.done, event.total, event.report["kind"], len(read_records(folder.path))))

    race(None, folder, runs=runner(), progress=listen)
    assert heard == [("fp32", 0, 1, "attempt", 0), ("fp32", 1, 1, "ended", 1)]
