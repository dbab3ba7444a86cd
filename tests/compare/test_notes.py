"""What a table says of its own intervals: what they cover where runs fail, and where one leaves what is possible."""

import pytest

from truestep.compare import summarize, table
from truestep.pages.words import percent
from truestep.run.faults import FAULTS
from truestep.stats.coverage import shortfalls


def said(summary, kind):
    return [note.text for note in summary.notes if note.kind == kind]


def test_intervals_that_cover_less_than_they_claim_are_named_with_what_they_cover(declare, raced):
    protocol = declare(seeds=(1, 2, 3, 4, 5))
    base = [10, 11, 12, 13, 14]
    (text,) = said(summarize(protocol, raced(protocol, fp32=base, fp16=[9, 10, 11, None, None])), "coverage")
    rare, seen = dict(shortfalls(runs=5, failing=0.1)), dict(shortfalls(runs=5, failing=0.4))
    assert f"at 5 runs, if one in ten fails, that of the restricted mean in {percent(rare['restricted mean'], 2)}" in text
    assert f"if 2 in 5 fail, as of fp16, that of the restricted mean in {percent(seen['restricted mean'], 2)}" in text
    assert rare["restricted mean"] < 0.7


@pytest.mark.parametrize("runs", [0, 1])
def test_without_an_interval_nothing_is_said_of_coverage(declare, raced, runs):
    protocol = declare(seeds=(3,))
    assert said(summarize(protocol, raced(protocol, fp32=[10][:runs], fp16=[9][:runs])), "coverage") == []


def test_an_interval_of_times_that_begins_below_zero_is_explained_and_only_such_a_one(declare, raced):
    protocol = declare(seeds=(3, 5))
    apart = summarize(protocol, raced(protocol, fp32=[10, 10.1], fp16=[1, 9]))
    (text,) = said(apart, "below zero")
    assert "Student's" in text
    assert "at 2 runs it begins below 0 for fp16, where" in text
    assert said(summarize(protocol, raced(protocol, fp32=[10, 10.1], fp16=[9, 9.1])), "below zero") == []


@pytest.mark.parametrize("name", FAULTS)
def test_every_loop_of_ones_own_is_labelled_and_told_in_a_sentence(declare, raced, name):
    candidate = f"fp16 clip=1 fault={name}"
    protocol = declare(candidates=("fp32", candidate))
    summary = summarize(protocol, raced(protocol, **{"fp32": [10] * 6, candidate: [10] * 6}))
    standing = summary.rows[1].standing
    (text,) = said(summary, "fault")
    label = "control" if name == "none" else "demonstration fault"
    assert table.name(standing) == f"{candidate} ({label})"
    assert text.startswith(f"{label.capitalize()}: {candidate} runs ")
    assert (standing.control, standing.is_rival, standing.demonstrates) == (
        (True, True, None) if name == "none" else (False, False, FAULTS[name].mistake)
    )
    assert ("no claim is made" in text) is (name != "none")
    assert "; none" not in text


@pytest.mark.parametrize(
    ("train", "attempts", "seen", "words"),
    [
        (1197, 400, 25201, "fp16 25,201 (the last window of each epoch of 1,197 examples holds 45)"),  # 21 of them, 19 fewer each
        (1197, 400, 25000, "fp16 25,000 (windows held 600 fewer examples than whole ones)"),  # not told by the epochs alone
        (1280, 105, 6720, "fp16 6,720 (295 of 400 attempts were not made)"),
        (1197, 20, 1261, "fp16 1,261 (380 of 400 attempts were not made, and the last window of each epoch of 1,197 examples "),
        (40, 400, 16000, "fp16 16,000 (the last window of each epoch of 40 examples holds 40)"),
        (1280, 400, 25600, None),
    ],
)
def test_what_a_run_is_charged_beyond_what_it_has_seen_is_told_from_its_counts(declare, ran, train, attempts, seen, words):
    protocol = declare(seeds=(3,), splits={"train": train, "validation": 300, "test": 300})
    lost = ran(protocol, "fp16", 3, status="budget")
    lost["counts"] |= {"attempts": attempts, "examples_seen": seen}
    texts = said(summarize(protocol, [ran(protocol, "fp32", 3), lost]), "charged")
    assert len(texts) == (words is not None)
    if words is not None:
        assert texts[0].startswith(
            "Charged: a run without the target counts as 25,600 examples, the budget of 400 attempts of 64, "
        )
        assert words in texts[0]


def test_the_control_may_be_the_baseline(declare):
    assert declare(candidates=("fp32 fault=none", "fp32 accumulate=2 fault=mean-of-means")).baseline == "fp32 fault=none"
