"""What a comparison fails by: every form reads back as itself, and holds exactly where its numbers say."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truestep import errors
from truestep.compare import summarize
from truestep.compare.conditions import FORMS, Condition, Judgement, conditions_of, demand_judgeable, failed_by, judged

PERCENT = st.integers(1, 1000).map(lambda tenths: tenths / 10)
CONDITIONS = (
    st.builds(Condition, kind=st.sampled_from(["quality", "examples"]), shown=st.booleans())
    | st.builds(Condition, kind=st.sampled_from(["skip-rate", "reach"]), limit=PERCENT)
    | st.builds(Condition, kind=st.just("time"), limit=st.integers(1, 10**6).map(lambda thousandths: thousandths / 1000))
)


@given(CONDITIONS)
def test_what_is_written_reads_back_as_itself(condition):
    assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_is_listed_is_one(form):
    assert str(Condition.parse(form)) == form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "speed",
        "quality<1%",
        "quality=undecided",
        "skip-rate",
        "skip-rate<1%",
        "skip-rate>1",
        "skip-rate>101%",
        "skip-rate>.%",
        "time>1.1",
        "time>0x",
        "time>x",
        "reach>50%",
        "reach<0%",
        "reach<200%",
        "reach<1.2.3%",
        "time>1.1x,",
    ],
)
def test_what_is_none_is_refused_with_the_forms(text):
    with pytest.raises(errors.ProtocolError, match="is no condition") as caught:
        conditions_of([text])
    assert all(form in caught.value.hint for form in FORMS)


def held(summary, text):
    """Candidate -> whether the condition holds."""
    rows = [(row.standing, row.against) for row in summary.rows]
    return {one.candidate: one.holds for one in judged([text], rows, noise_floor=summary.limits.noise_floor)}


def test_relative_conditions_are_about_rivals_and_absolute_ones_about_the_baseline_too(declare, raced):
    protocol = declare(candidates=("fp32", "fp32 again", "bf16"))
    summary = summarize(protocol, raced(protocol, fp32=[10] * 6, fp32_again=[10] * 6, bf16=[10] * 6))
    assert list(held(summary, "quality")) == list(held(summary, "time>1.1x")) == list(held(summary, "examples")) == ["bf16"]
    assert list(held(summary, "reach<100%")) == list(held(summary, "skip-rate>1%")) == ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("quality", "plain", "shown"),
    [(0.9, False, False), (0.85, True, True), (None, True, False)],
    ids=["non-inferior", "inferior", "undecided"],
)
def test_quality_fails_what_was_not_shown_and_quality_inferior_only_what_was(declare, raced, quality, plain, shown):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, {"fp16": {"test_quality": quality}}, fp32=[10] * 6, fp16=[10] * 6))
    assert held(summary, "quality") == {"fp16": plain}
    assert held(summary, "quality=inferior") == {"fp16": shown}


def test_examples_follow_the_margin_of_examples(declare, raced):
    protocol = declare()
    more = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=[12, 12.1, 12.2, 12, 12.1, 12.2]))
    same = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=[10] * 6))
    assert (held(more, "examples"), held(same, "examples")) == ({"fp16": True}, {"fp16": False})
    assert (held(more, "examples=inferior"), held(same, "examples=inferior")) == ({"fp16": True}, {"fp16": False})


def test_a_skip_rate_is_of_all_attempts_and_has_to_lie_above_the_limit(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=[10] * 6))  # 5 of 105 attempts in each run
    assert held(summary, "skip-rate>4.7%") == {"fp32": True, "fp16": True}
    assert held(summary, "skip-rate>4.8%") == {"fp32": False, "fp16": False}


def test_time_is_the_paired_ratio_beyond_the_noise_floor(declare, raced):
    protocol = declare(candidates=("fp32", "fp16"))
    summary = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=[12] * 6))
    assert held(summary, "time>1.19x") == {"fp16": True}
    assert held(summary, "time>1.21x") == {"fp16": False}
    rows = [(row.standing, row.against) for row in summary.rows]
    (noisy,) = judged(["time>1.19x"], rows, noise_floor=1.3)
    assert (noisy.holds, "noise floor of 1.3x" in noisy.text) == (None, True)


@pytest.mark.parametrize(
    ("taken", "limit", "floor", "holds"),
    [
        (12, 1.1, 1.05, True),
        (12, 1.1, 1.2, None),
        (12, 1.3, 1.2, False),
        (10, 0.5, 1.2, True),  # as slow as the baseline: what two equal candidates lie apart explains no factor of two
        (5.5, 0.5, 1.2, None),
        (4.9, 0.5, 1.2, False),
        ([10, 10, 10, 10, 10, None], 1.1, 1.01, True),  # at least 1.12 times as long
        ([10, 10, 10, 10, 10, None], 1.1, 1.05, None),
    ],
)
def test_the_noise_floor_is_taken_around_the_limit(declare, raced, taken, limit, floor, holds):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=taken if isinstance(taken, list) else [taken] * 6))
    (one,) = judged([f"time>{limit}x"], [(row.standing, row.against) for row in summary.rows], noise_floor=floor)
    assert one.holds is holds


@pytest.mark.parametrize("kind", ["skip-rate>{}%", "reach<{}%"])
def test_a_share_that_equals_its_limit_is_neither_above_nor_below_it(declare, raced, kind):
    protocol = declare()
    (row, _) = summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=[10] * 6)).rows
    limits = [whole / 10 for whole in range(1, 1001)]
    assert 100 * (7 / 100) > 7
    for limit in limits:
        counts = {"skipped": round(10 * limit), "attempts": 1000, "reached": round(10 * limit), "runs": 1000}
        (one,) = judged([kind.format(limit)], [(dataclasses.replace(row.standing, **counts), None)], noise_floor=None)
        assert one.holds is False, limit
        counts |= {"skipped": counts["skipped"] + 1, "reached": counts["reached"] - 1}
        (one,) = judged([kind.format(limit)], [(dataclasses.replace(row.standing, **counts), None)], noise_floor=None)
        assert one.holds is True, limit


@pytest.mark.parametrize(("condition", "code"), [("skip-rate>1%", 1), ("skip-rate>100%", 0), ("reach<1%", 1)])
def test_what_cannot_be_told_fails_as_what_holds_does(declare, raced, condition, code):
    protocol = declare(fail_if=(condition,))
    fp16 = [] if condition.startswith("reach") else [10] * 6
    assert summarize(protocol, raced(protocol, fp32=[10] * 6, fp16=fp16)).exit_code == code


@pytest.mark.parametrize(
    ("condition", "candidates", "named"),
    [
        ("time>1.1x", ("fp32", "bf16", "fp16"), "fp16, which is emulated"),
        ("time>1.1x", ("fp16", "bf16"), "against fp16, which is emulated"),
        ("quality", ("fp32", "fp32 again"), "about none"),
        ("examples", ("fp32", "fp16 clip=1 fault=clip-before-unscale"), "about none"),
        ("time>1.1x", ("fp32",), "about none"),
    ],
)
def test_what_could_never_be_judged_is_refused_beforehand(condition, candidates, named):
    with pytest.raises(errors.ProtocolError, match=named) as caught:
        demand_judgeable([condition], candidates, emulated=("fp16", "fp16 clip=1 fault=clip-before-unscale"))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("condition", "candidates"),
    [("reach<50%", ("fp32",)), ("skip-rate>1%", ("fp16",)), ("examples", ("fp32", "fp16")), ("time>1.1x", ("fp32", "bf16"))],
)
def test_what_can_be_judged_is_not_refused(condition, candidates):
    demand_judgeable([condition], candidates, emulated=("fp16",))


def test_no_condition_is_about_a_demonstration(declare, raced):
    fault = "fp32 accumulate=4 fault=loss-not-divided"
    protocol = declare(candidates=("fp32", fault, "bf16"))
    rows = raced(protocol, **{"fp32": [10] * 6, fault: [None] * 6, "bf16": [10] * 6})
    summary = summarize(protocol, rows)
    for condition in FORMS:
        assert fault not in held(summary, condition)
        assert "bf16" in held(summary, condition)


@pytest.mark.parametrize(
    ("fp32", "fp16", "limit", "holds"),
    [
        ([10] * 6, [10, 10, 10, 10, 10, None], 1.1, True),  # at least (20 / 10)^(1/6) = 1.12 times as long
        ([10] * 6, [10, 10, 10, 10, 10, None], 1.2, None),
        ([10, 10, 10, 10, 10, None], [10] * 6, 0.95, False),  # at most 1 / 1.12
        ([10, 10, 10, 10, 10, None], [10] * 6, 0.8, None),
        ([10, 10, 10, 10, 10, None], [None, 10, 10, 10, 10, 10], 0.5, None),
    ],
)
def test_a_time_that_was_cut_fails_only_by_what_its_bound_proves(declare, raced, fp32, fp16, limit, holds):
    protocol = declare()
    assert held(summarize(protocol, raced(protocol, fp32=fp32, fp16=fp16)), f"time>{limit}x") == {"fp16": holds}


def test_an_emulated_candidates_time_is_not_judged(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, {"fp16": {"emulated": True}}, fp32=[10] * 6, fp16=[90] * 6))
    assert held(summary, "time>1.1x") == {"fp16": None}


def test_no_candidates_time_is_judged_against_an_emulated_baseline(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, {"fp32": {"emulated": True}}, fp32=[10] * 6, fp16=[90] * 6))
    assert held(summary, "time>1.1x") == {"fp16": None}


def test_reach_is_of_the_runs_that_were_made_and_nothing_is_told_of_none(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=[10, 11, None], fp16=[]))
    assert held(summary, "reach<66%") == {"fp32": False, "fp16": None}
    assert held(summary, "reach<67%") == {"fp32": True, "fp16": None}


def test_what_holds_is_said_first_and_what_is_well_is_not(declare, raced):
    said = failed_by(
        [
            Judgement(condition="a", candidate="x", holds=False, text="1"),
            Judgement(condition="b", candidate="x", holds=None, text="2"),
            Judgement(condition="c", candidate="x", holds=True, text="3"),
        ]
    )
    assert said == ["Failed: --fail-if c: x, 3", "Not judged, and so failed: --fail-if b: x, 2"]


def test_a_text_carries_its_numbers(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, {"fp16": {"test_quality": 0.85}}, fp32=[10] * 6, fp16=[12] * 6))
    rows = [(row.standing, row.against) for row in summary.rows]
    texts = [one.text for one in judged(["quality", "time>1.1x", "skip-rate>1%", "reach<100%"], rows, noise_floor=None)]
    assert texts == [
        "final quality inferior: mean loss 0.05, below 0.05 at 95 %, margin 0.01, pairs 6",
        "1.2x the baseline's time",
        "30 of 630 attempts skipped (4.762\u00a0%)",
        "30 of 750 attempts skipped (4\u00a0%)",
        "6 of 6 runs reached the target",
        "6 of 6 runs reached the target",
    ]
