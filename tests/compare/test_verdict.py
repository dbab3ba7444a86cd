"""Golden verdicts on constructed records."""

import json
import math

import pytest

from truestep import errors, stats
from truestep.compare import summarize
from truestep.compare.against import TimeVerdict
from truestep.compare.conditions import judged
from truestep.compare.standing import CLOCKS

INF = None  # in `raced`, a run that never reached the target
BASE = [10.0, 12.0, 11.0, 15.0, 13.0, 14.0]


def row(summary, candidate):
    return next(one for one in summary.rows if one.standing.candidate == candidate)


def test_golden_times_give_the_golden_estimates(declare, raced):
    protocol = declare(candidates=("fp32",), seeds=(1, 2, 3, 4, 5))
    records = raced(protocol, fp32=[10, 12, INF, 11, 15])
    one = summarize(protocol, records).rows[0].standing
    estimate = one.estimates["seconds"]
    assert (one.reached, one.runs) == (4, 5)
    assert estimate.restricted_mean == pytest.approx(13.6, rel=1e-15)
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((8.59, 18.61), abs=0.005)
    assert (estimate.ert, estimate.median, estimate.tau) == (17.0, 12.0, 20.0)
    assert one.reach == stats.clopper_pearson(4, 5)
    assert one.statuses == {"reached": 4, "diverged": 1}
    assert one.failures == (
        {"seed": 3, "status": "diverged", "detail": "diverged at attempt 100", "hint": None, "best": 0.96}
        | {"attempts": 105, "examples_seen": 6720},
    )


@pytest.mark.parametrize("status", ["budget", "diverged", "out of memory", "error", "stalled"])
def test_every_way_to_fail_costs_the_whole_budget_however_early(declare, ran, status):
    protocol = declare(candidates=("fp32",), seeds=(3, 5))
    records = [ran(protocol, "fp32", 3, seconds=10.0), ran(protocol, "fp32", 5, status=status)]
    one = summarize(protocol, records).rows[0].standing
    assert records[1]["clocks"]["train"] < 20, "it ended early"
    assert one.estimates["seconds"].restricted_mean == 15
    assert one.estimates["completed"].restricted_mean == (100 + 400) / 2
    assert one.estimates["examples"].restricted_mean == (6400 + 400 * 64) / 2
    assert one.failures[0]["status"] == status


def test_no_run_reached_is_absent_and_not_infinite(declare, raced):
    protocol = declare(candidates=("fp32",))
    one = summarize(protocol, raced(protocol, fp32=[INF] * 6)).rows[0].standing
    estimate = one.estimates["seconds"]
    assert (estimate.restricted_mean, estimate.interval, estimate.ert, estimate.median) == (20, None, None, None)
    assert (one.quality, one.quality_interval, one.quality_runs) == (None, None, 0)


def test_counts_rates_and_clocks_are_sums_over_the_runs(declare, raced):
    protocol = declare(candidates=("fp32",), seeds=(3, 5))
    one = summarize(protocol, raced(protocol, fp32=[10, 20])).rows[0].standing
    # 10 s and 20 s are 100 and 200 completed updates of 64 examples, and 5 skipped attempts each
    assert (one.attempts, one.completed, one.skipped) == (310, 300, 10)
    assert one.skipped_by_reason == {"backward overflow": 8, "non-finite loss": 2}
    assert one.skip_rate == 10 / 310
    assert one.examples_applied == 300 * 64
    assert one.examples_per_second == 300 * 64 / 30
    assert one.spent == {"init": 1.0, "train": 30.0, "eval": 0.5, "checkpoint": 0.0, "waste": 0.0}


def test_the_memory_of_a_device_is_the_most_of_any_run(declare, raced):
    protocol = declare(candidates=("fp32",), seeds=(3, 5, 7))
    records = raced(protocol, fp32=[10, 20, 15])
    records[0]["process"] |= {"peak_device_bytes": 2**20}
    records[1]["process"] |= {"peak_device_bytes": 2**21}
    records[2]["process"] = None
    assert summarize(protocol, records).rows[0].standing.peak_device_bytes == 2**21
    assert summarize(protocol, records[2:]).rows[0].standing.peak_device_bytes is None


def test_faster_on_all_of_six_seeds_is_faster_with_its_ratio_interval_and_p(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=BASE, fp16=[t / 2 for t in BASE]))
    found = row(summary, "fp16").against
    assert found.time is TimeVerdict.FASTER
    ratio = found.ratios["seconds"]
    assert ratio.speedup == pytest.approx(2, rel=1e-14)
    assert (ratio.p, ratio.p_adjusted, ratio.bound) == (2 / 64, 2 / 64, None)
    assert found.text.startswith("faster: 2.00x (2.00), p = 0.0312;")


def test_slower_on_all_of_six_seeds_is_slower(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=BASE, fp16=[1.2 * t for t in BASE]))
    found = row(summary, "fp16").against
    assert found.time is TimeVerdict.SLOWER
    assert found.examples.decision == "inferior"
    # the examples of a run are whole updates of the golden factor 1.2
    assert found.examples.mean == pytest.approx(0.2, abs=1e-3)


def test_five_seeds_claim_nothing_however_large_the_effect(declare, raced):
    protocol = declare(seeds=(1, 2, 3, 4, 5))
    summary = summarize(protocol, raced(protocol, fp32=BASE, fp16=[t / 4 for t in BASE]))
    found = row(summary, "fp16").against
    assert found.time is TimeVerdict.NO_CLAIM
    assert found.text == "no claim: 5 seeds, 6 needed"
    assert found.ratios["seconds"].speedup == pytest.approx(4), "the effect is given all the same"
    assert any(note.kind == "too few seeds" and "no p below 0.0625" in note.text for note in summary.notes)


def test_two_candidates_take_seven_seeds(declare, raced):
    protocol = declare(candidates=("fp32", "bf16", "fp16"))
    times = {"fp32": BASE, "bf16": [t / 2 for t in BASE], "fp16": [t / 2 for t in BASE]}
    summary = summarize(protocol, raced(protocol, **times))
    assert summary.limits.seeds_needed == 7
    assert row(summary, "bf16").against.text == "no claim: 6 seeds, 7 needed"


def test_mixed_signs_show_no_difference(declare, raced):
    protocol = declare()
    other = [t * f for t, f in zip(BASE, (0.9, 1.1, 0.95, 1.05, 1.02, 0.98), strict=True)]
    found = row(summarize(protocol, raced(protocol, fp32=BASE, fp16=other)), "fp16").against
    assert found.time is TimeVerdict.SAME
    assert found.text.startswith("no difference shown in time;")


def test_a_candidate_that_never_reaches_is_slower_by_a_bound(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=BASE, fp16=[INF] * 6))
    found = row(summary, "fp16").against
    assert found.time is TimeVerdict.SLOWER
    assert found.ratios["seconds"].bound is stats.Bound.AT_MOST
    assert found.text.startswith("never reached the target; slower: at most ")
    assert found.examples.decision == "inferior"
    assert (found.quality.decision, found.quality.why) == ("undecided", "no pair of runs has a final quality")
    words = "fp16 never reached the target (accuracy 0.95) in 6 runs; the best on validation was 0.9600."
    assert words in [note.text for note in summary.notes]


def test_a_failure_among_fast_runs_leaves_time_undecided(declare, raced):
    # nine runs more than three times as fast and one that failed: significant, but the ratio is only "at most"
    protocol = declare(seeds=tuple(range(10)))
    found = row(summarize(protocol, raced(protocol, fp32=[18.0] * 10, fp16=[5.0] * 9 + [INF])), "fp16").against
    ratio = found.ratios["seconds"]
    assert (ratio.bound, ratio.p_adjusted <= 0.05, ratio.speedup > 1) == (stats.Bound.AT_MOST, True, True)
    assert found.time is TimeVerdict.CUT


def test_a_baseline_that_fails_makes_faster_a_bound_from_below(declare, raced):
    protocol = declare()
    found = row(summarize(protocol, raced(protocol, fp32=[INF] * 6, fp16=[10.0] * 6)), "fp16").against
    assert found.time is TimeVerdict.FASTER
    assert found.text.startswith("faster: at least 2.00x")


def test_failures_make_examples_undecided_rather_than_non_inferior(declare, ran):
    protocol = declare()
    records = [ran(protocol, "fp32", seed, examples=25600 - 64) for seed in protocol.seeds]
    records += [ran(protocol, "fp16", seed, status="budget") for seed in protocol.seeds]
    # y of the failed runs is 25600, 0.25 % beyond the baseline's: within the margin of 5 %, but it is only a bound
    found = row(summarize(protocol, records), "fp16").against
    assert found.examples.upper == pytest.approx(64 / 25536, rel=1e-9)
    assert found.examples.decision == "undecided"
    assert "never reached" in found.examples.why


@pytest.mark.parametrize(
    ("statuses", "advice"),
    [
        (("budget", "budget"), "choose one that the baseline reaches, or a larger budget."),
        (("diverged", "budget"), "choose one that the baseline reaches, or a larger budget."),
        (
            ("diverged", "stalled"),
            "no run came to the end of its budget (6 diverged, 6 stalled), so mend what ended them, which is told run by run.",
        ),
    ],
)
def test_no_run_of_anyone_reached_says_so_once_and_advises_a_larger_budget_only_where_one_was_used_up(
    declare, raced, statuses, advice
):
    protocol = declare()
    how = {name: {"status": status} for name, status in zip(protocol.candidates, statuses, strict=True)}
    summary = summarize(protocol, raced(protocol, how, fp32=[INF] * 6, fp16=[INF] * 6))
    texts = [note.text for note in summary.notes if note.kind == "never reached"]
    assert texts == [f"No run reached the target (accuracy 0.95); the best on validation was 0.9600: {advice}"]
    found = row(summary, "fp16").against
    assert found.time is TimeVerdict.SAME
    assert found.ratios["seconds"].interval is None


def test_emulated_withholds_time_and_keeps_updates_and_examples(declare, raced):
    protocol = declare()
    records = raced(protocol, {"fp16": {"emulated": True}}, fp32=BASE, fp16=[t / 2 for t in BASE])
    summary = summarize(protocol, records)
    found = row(summary, "fp16").against
    assert row(summary, "fp16").standing.emulated
    assert found.time is TimeVerdict.WITHHELD
    assert found.text.startswith("time withheld: fp16 is emulated on this device; examples to the target non-inferior")
    assert found.ratios["seconds"].p_adjusted is None
    assert found.ratios["completed"].p_adjusted == 2 / 64
    assert any(note.kind == "emulated" for note in summary.notes)


def test_an_emulated_baseline_withholds_the_time_of_every_rival(declare, raced):
    protocol = declare(candidates=("fp16", "bf16", "fp32"), seeds=tuple(range(7)))
    base = [*BASE, 12.5]
    times = {"fp16": base, "bf16": [t / 2 for t in base], "fp32": [t * 2 for t in base]}
    summary = summarize(protocol, raced(protocol, {"fp16": {"emulated": True}}, **times))
    for name in ("bf16", "fp32"):
        found = row(summary, name).against
        assert not row(summary, name).standing.emulated
        assert found.time is TimeVerdict.WITHHELD
        assert found.text.startswith("time withheld: the baseline is emulated on this device; examples to the target ")
        assert found.ratios["seconds"].p_adjusted is None
        assert found.ratios["examples"].p_adjusted == 2 * 2 / 2**7
    (note,) = [note.text for note in summary.notes if note.kind == "emulated"]
    assert "no verdict on time is given, since all are held against fp16." in note


def test_an_emulated_candidate_costs_the_others_nothing_in_holm(declare, raced):
    protocol = declare(candidates=("fp32", "bf16", "fp16"), seeds=tuple(range(7)))
    base = [*BASE, 12.5]
    records = raced(protocol, {"fp16": {"emulated": True}}, fp32=base, bf16=[t / 2 for t in base], fp16=[t / 3 for t in base])
    found = row(summarize(protocol, records), "bf16").against
    assert found.ratios["seconds"].p_adjusted == 2 / 2**7
    assert found.ratios["examples"].p_adjusted == 2 * 2 / 2**7


def test_holm_is_taken_over_the_candidates(declare, raced):
    protocol = declare(candidates=("fp32", "bf16", "fp16"), seeds=tuple(range(7)))
    base = [*BASE, 12.5]
    summary = summarize(protocol, raced(protocol, fp32=base, bf16=[t / 2 for t in base], fp16=[t * 1.3 for t in base]))
    assert row(summary, "bf16").against.ratios["seconds"].p_adjusted == 2 * 2 / 2**7
    assert row(summary, "bf16").against.time is TimeVerdict.FASTER
    assert row(summary, "fp16").against.time is TimeVerdict.SLOWER


def test_below_the_noise_floor_nothing_is_claimed(declare, raced):
    protocol = declare(candidates=("fp32", "fp32 again", "fp16"))
    again = [t * f for t, f in zip(BASE, (1.1, 0.9, 1.08, 0.93, 1.05, 0.97), strict=True)]
    records = raced(protocol, fp32=BASE, fp32_again=again, fp16=[t / 1.02 for t in BASE])
    summary = summarize(protocol, records)
    assert summary.limits.seeds_needed == 6, "the baseline again is no candidate"
    assert summary.limits.noise_floor > 1.02
    assert row(summary, "fp16").against.time is TimeVerdict.NOISE
    assert row(summary, "fp32 again").against.text.startswith("the baseline again: noise floor 1.")
    quiet = raced(protocol, fp32=BASE, fp32_again=BASE, fp16=[t / 1.02 for t in BASE])
    assert summarize(protocol, quiet).limits.noise_floor == 1
    assert row(summarize(protocol, quiet), "fp16").against.time is TimeVerdict.FASTER


def test_a_baseline_that_never_reached_the_target_has_no_noise_floor(declare, raced):
    protocol = declare(candidates=("fp32", "fp32 again", "fp16"))
    summary = summarize(protocol, raced(protocol, fp32=[INF] * 6, fp32_again=[INF] * 6, fp16=BASE))
    assert summary.limits.noise_floor is None
    assert "Noise floor not measured: fp32 reached the target in no pair of runs." in [note.text for note in summary.notes]
    assert row(summary, "fp32 again").against.text == "the baseline again: nothing measured"


def test_final_quality_is_held_against_its_margin_in_its_direction(declare, raced):
    for direction, sign in (("higher", 1), ("lower", -1)):
        protocol = declare(direction=direction)
        worse = raced(protocol, {"fp16": {"test_quality": 0.9 - sign * 0.05}}, fp32=BASE, fp16=BASE)
        better = raced(protocol, {"fp16": {"test_quality": 0.9 + sign * 0.05}}, fp32=BASE, fp16=BASE)
        assert row(summarize(protocol, worse), "fp16").against.quality.decision == "inferior"
        assert row(summarize(protocol, worse), "fp16").against.quality.mean == pytest.approx(0.05, rel=1e-9)
        assert row(summarize(protocol, better), "fp16").against.quality.decision == "non-inferior"


def test_what_rounding_alone_can_make_is_no_difference(declare, raced):
    thirds = [one / 3 for one in (1, 2, 1, 2, 1, 2)]
    apart, mixed = ([one / 3 for one in thirds] for thirds in ((2, 3, 3, 3, 1, 2), (3, 1, 3, 3, 2, 2)))
    differences = [one - other for one, other in zip(apart, mixed, strict=True)]
    assert 0 < stats.noninferiority(differences, margin=1).mean < 1e-16, "of 14 thirds and 14 thirds"
    protocol = declare()
    for fp32, fp16, words in (
        (thirds, [(one + 1) - 1 for one in thirds], "final quality on the test split non-inferior (no difference on any seed)"),
        (apart, mixed, "final quality on the test split undecided (loss below "),
    ):
        records = raced(protocol, fp32=BASE, fp16=BASE)
        for record in records:
            record["test_quality"] = (fp32 if record["candidate"] == "fp32" else fp16)[protocol.seeds.index(record["seed"])]
        summary = summarize(protocol, records)
        found = row(summary, "fp16").against
        assert found.quality.mean == 0
        assert words in found.text
        assert "; examples to the target non-inferior (no difference on any seed); " in found.text
        (said,) = judged(["quality"], [(one.standing, one.against) for one in summary.rows], noise_floor=None)
        assert said.text.startswith(f"final quality {found.quality.decision}: no difference ")


def test_a_demonstration_without_damage_to_the_quality_says_no_difference(declare, raced):
    protocol = declare(candidates=("fp32", FAULT))
    text = row(summarize(protocol, raced(protocol, **{"fp32": BASE, FAULT: BASE})), FAULT).against.text
    assert text.endswith("; no difference in mean final quality")


def test_a_run_without_final_quality_leaves_quality_undecided(declare, raced):
    protocol = declare()
    found = row(summarize(protocol, raced(protocol, fp32=BASE, fp16=[*BASE[:5], INF])), "fp16").against
    assert (found.quality.decision, found.quality.pairs) == ("undecided", 5)
    assert found.quality.why == "1 of 6 pairs have no final quality"


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_final_quality_that_is_not_finite_is_none(declare, ran, value):
    protocol = declare(candidates=("fp32",), seeds=(3,))
    one = summarize(protocol, [ran(protocol, "fp32", 3, test_quality=value)]).rows[0].standing
    assert one.quality_runs == 0


@pytest.mark.parametrize(("direction", "best"), [("higher", 0.75), ("lower", 0.25)])
def test_the_best_on_validation_is_that_of_the_direction_and_of_finite_evaluations(declare, ran, direction, best):
    protocol = declare(direction=direction, candidates=("fp32",), seeds=(3,))
    missed = ran(protocol, "fp32", 3, status="budget")
    missed["evaluations"] = [missed["evaluations"][0] | {"quality": quality} for quality in (0.5, 0.75, "nan", 0.25)]
    assert summarize(protocol, [missed]).rows[0].standing.failures[0]["best"] == best
    missed["evaluations"] = []
    assert summarize(protocol, [missed]).rows[0].standing.failures[0]["best"] is None


def test_the_ratio_of_each_seed_is_kept_with_its_bound_and_they_average_to_the_speedup(declare, raced):
    protocol = declare(seeds=(7, 3, 5, 11))
    records = raced(protocol, fp32=[10.0, INF, 8.0, INF], fp16=[5.0, 10.0, INF, INF])
    ratio = row(summarize(protocol, records), "fp16").against.ratios["seconds"]
    assert [(one.seed, one.bound) for one in ratio.seeds] == [
        (3, stats.Bound.AT_LEAST),
        (5, stats.Bound.AT_MOST),
        (7, None),
        (11, stats.Bound.UNDIRECTED),
    ]
    # logarithm and exponential round once each
    assert [one.speedup for one in ratio.seeds] == pytest.approx([2, 0.4, 2, 1], rel=1e-14)
    assert math.prod(one.speedup for one in ratio.seeds) ** (1 / 4) == pytest.approx(ratio.speedup, rel=1e-14)


def test_one_seed_gives_ratios_without_intervals(declare, raced):
    protocol = declare(seeds=(3,))
    found = row(summarize(protocol, raced(protocol, fp32=[10], fp16=[5])), "fp16").against
    assert found.ratios["seconds"].speedup == pytest.approx(2)
    assert (found.ratios["seconds"].interval, found.ratios["seconds"].p) == (None, 1)
    assert found.text == "no claim: 1 seed, 6 needed"


def test_without_a_budget_in_seconds_the_longest_run_bounds_the_times(declare, raced):
    protocol = declare(budget_seconds=None)
    summary = summarize(protocol, raced(protocol, fp32=[10, 15], fp16=[12, INF]))
    assert row(summary, "fp16").standing.estimates["seconds"].restricted_mean == (12 + 15) / 2
    assert any(note.kind == "budget" and "15 s" in note.text for note in summary.notes)


def test_runs_that_spent_no_time_have_no_seconds_but_counts(declare, ran):
    protocol = declare(budget_seconds=None, seeds=(3,))
    idle = {"clocks": dict.fromkeys(("init", "train", "eval", "checkpoint", "waste"), 0.0), "total_seconds": 0.0}
    records = [ran(protocol, name, 3, status="error", **idle) for name in protocol.candidates]
    summary = summarize(protocol, records)
    assert summary.rows[0].standing.estimates["seconds"] is None
    assert summary.rows[0].standing.cpu_share is None
    assert not [note for note in summary.notes if note.kind in ("budget", "contended")]
    assert summary.rows[0].standing.estimates["examples"] is not None
    assert summary.rows[1].against.ratios["seconds"] is None


def test_a_target_met_before_the_first_update_has_no_ratio(declare, ran):
    protocol = declare(seeds=(3,))
    records = [ran(protocol, name, 3, examples=0, seconds=0.0) for name in protocol.candidates]
    found = row(summarize(protocol, records), "fp16").against
    assert set(found.ratios.values()) == {None}
    assert found.examples.why == "reached before the first update"


def test_an_interrupted_comparison_pairs_what_both_have_run(declare, raced):
    protocol = declare()
    summary = summarize(protocol, raced(protocol, fp32=BASE[:3], fp16=BASE[:2]))
    assert row(summary, "fp16").against.pairs == 2
    assert (summary.limits.runs, summary.limits.planned) == (5, 12)
    assert summary.notes[0].kind == "incomplete"


def test_no_record_at_all_is_not_run(declare):
    summary = summarize(declare(), [])
    assert [one.standing.runs for one in summary.rows] == [0, 0]
    assert summary.rows[0].standing.reach is None
    assert summary.rows[1].against.text == "no seed that both have run"


def test_a_contended_run_is_flagged_with_its_share(declare, ran):
    protocol = declare(seeds=(3,))
    busy = ran(protocol, "fp16", 3)
    busy["cpu_seconds"] = 0.61 * 2 * busy["total_seconds"]
    (note,) = [note for note in summarize(protocol, [ran(protocol, "fp32", 3), busy]).notes if note.kind == "contended"]
    assert "fp16" in note.text
    assert "61\u00a0%" in note.text
    quiet = summarize(protocol, [ran(protocol, "fp32", 3), ran(protocol, "fp16", 3)])
    assert not [note for note in quiet.notes if note.kind == "contended"]


def test_the_order_of_the_records_does_not_matter(declare, raced):
    protocol = declare()
    records = raced(protocol, fp32=BASE, fp16=[t / 2 for t in BASE])
    straight, turned = summarize(protocol, records).as_dict(), summarize(protocol, records[::-1]).as_dict()
    assert straight["candidates"][1]["against"] == turned["candidates"][1]["against"]


def test_the_summary_is_strict_json_with_no_number_that_is_none(declare, raced):
    protocol = declare()
    for times in ({"fp32": BASE, "fp16": [INF] * 6}, {"fp32": [INF] * 6, "fp16": [INF] * 6}, {}):
        summary = summarize(protocol, raced(protocol, **times)).as_dict()
        assert json.loads(json.dumps(summary, allow_nan=False))["protocol_hash"] == protocol.hash


def test_a_record_of_another_protocol_is_refused_by_both_hashes(declare, raced):
    protocol, other = declare(), declare(target=0.9)
    with pytest.raises(errors.RecordError, match="another protocol") as caught:
        summarize(protocol, raced(other, fp32=[10.0]))
    assert (caught.value.record, caught.value.protocol) == (other.hash, protocol.hash)


def test_a_record_twice_or_not_asked_for_is_refused_by_name(declare, ran):
    protocol = declare()
    once = ran(protocol, "fp32", 3)
    for records, named in (
        ([once, once], "fp32, seed 3, is there twice"),
        ([ran(protocol, "fp32", 4)], "fp32, seed 4, is not asked for"),
        ([ran(protocol, "bf16", 3)], "bf16, seed 3, is not asked for"),
    ):
        with pytest.raises(errors.RecordError, match=named):
            summarize(protocol, records)


def test_resolution_is_stated_in_examples_updates_and_as_a_share(declare, ran):
    protocol = declare(seeds=(3,))
    records = [ran(protocol, "fp32", 3, examples=6400)]
    (note,) = [note for note in summarize(protocol, records).notes if note.kind == "resolution"]
    assert "every 320 examples (5 updates), 5\u00a0% of what fp32 takes" in note.text


def test_speedup_interval_is_students_on_the_paired_logarithms(declare, raced):
    protocol = declare()
    other = [9.0, 12.5, 10.0, 13.0, 12.0, 13.5]
    ratio = row(summarize(protocol, raced(protocol, fp32=BASE, fp16=other)), "fp16").against.ratios["seconds"]
    interval = stats.mean_interval([math.log(a) - math.log(b) for a, b in zip(other, BASE, strict=True)])
    assert (ratio.interval.low, ratio.interval.high) == pytest.approx(
        (math.exp(-interval.high), math.exp(-interval.low)), rel=1e-12
    )


def test_times_of_runs_that_shared_the_machine_are_told_as_such_with_the_verdict_and_below(declare, raced):
    protocol = declare(jobs=3)
    summary = summarize(protocol, raced(protocol, fp32=BASE, fp16=[time / 2 for time in BASE]))
    assert ", timed with 3 runs at once; examples" in row(summary, "fp16").against.text
    assert any(note.text.startswith("Contended by design: 3 runs at once") for note in summary.notes)


FAULT = "fp32 accumulate=4 fault=loss-not-divided"


def test_a_demonstration_costs_the_others_neither_seeds_nor_holm_and_its_damage_is_told(declare, raced):
    alone = declare(candidates=("fp32", "bf16"))
    beside = declare(candidates=("fp32", FAULT, "bf16"))
    times = {"fp32": BASE, "bf16": [t / 2 for t in BASE]}
    damaged = [2 * t for t in BASE[:-1]] + [None]
    without, summary = (
        summarize(alone, raced(alone, **times)),
        summarize(beside, raced(beside, {FAULT: {"test_quality": 0.8}}, **times | {FAULT: damaged})),
    )
    assert summary.limits.seeds_needed == without.limits.seeds_needed == 6
    assert not [note for note in summary.notes if note.kind == "too few seeds"]
    assert row(summary, "bf16").against.ratios == row(without, "bf16").against.ratios
    assert row(summary, "bf16").against.time is TimeVerdict.FASTER
    against = row(summary, FAULT).against
    assert against.time is TimeVerdict.NO_CLAIM
    assert {clock: ratio.p_adjusted for clock, ratio in against.ratios.items()} == dict.fromkeys(CLOCKS)
    assert against.text.startswith("a demonstration, not judged: 5 of 6 runs reached the target; times faster at most 0.")
    assert against.text.endswith("mean loss of final quality 0.100")


def test_demonstrations_alone_take_no_seeds(declare, raced):
    protocol = declare(candidates=("fp32", FAULT), seeds=(3,))
    summary = summarize(protocol, raced(protocol, **{"fp32": [10], FAULT: [16]}))
    assert not [note for note in summary.notes if note.kind == "too few seeds"]
    assert "1 of 1 run reached the target; times faster 0.625x; " in row(summary, FAULT).against.text
