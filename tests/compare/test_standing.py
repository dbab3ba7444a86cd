"""One candidate's runs as numbers: what contended for the machine, and what only died."""

import pytest

from truestep.compare import summarize
from truestep.compare.death import charged
from truestep.compare.standing import cpu_share


def contended(summary):
    return [note.text for note in summary.notes if note.kind == "contended"]


@pytest.mark.parametrize("status", ["crashed", "timed out", "out of memory", "error"])
def test_a_run_whose_process_died_tells_nothing_of_the_machine(declare, ran, status):
    protocol = declare(seeds=(3,))
    dead = ran(protocol, "fp16", 3, status=status, cpu_seconds=None)
    summary = summarize(protocol, [ran(protocol, "fp32", 3), dead])
    assert (summary.rows[1].standing.cpu_share, contended(summary)) == (None, [])


def test_a_run_that_was_starved_until_memory_failed_is_told(declare, ran):
    protocol = declare(seeds=(3,))
    starved = ran(protocol, "fp16", 3, status="out of memory", cpu_seconds=0.5)
    (note,) = contended(summarize(protocol, [ran(protocol, "fp32", 3), starved]))
    assert "a run of fp16" in note


@pytest.mark.parametrize("died_with", [None, 0.1])
def test_the_share_of_a_run_that_was_made_again_is_that_of_the_try_that_made_it(declare, ran, died_with):
    protocol = declare(seeds=(3,))
    again = ran(protocol, "fp16", 3)
    earlier = ran(protocol, "fp16", 3, status="crashed", total_seconds=1000.0, cpu_seconds=died_with)
    both = charged(again, charged(earlier, earlier))
    assert [each["total_seconds"] for each in both["process"]["earlier"]] == [1000.0, 1000.0]
    assert both["total_seconds"] == again["total_seconds"] + 2000
    assert cpu_share(both, threads=2) == pytest.approx(cpu_share(again, threads=2), rel=1e-9)
    assert contended(summarize(protocol, [ran(protocol, "fp32", 3), both])) == []
