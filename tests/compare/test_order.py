"""The order of the runs."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from truestep.compare import order
from truestep.compare.order import remaining

CANDIDATES = st.lists(st.sampled_from(["fp32", "bf16", "fp16", "tf32", "fp32 again"]), min_size=1, max_size=5, unique=True)
SEEDS = st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True)


def test_order_by_hand():
    trace = [f"{slot.candidate}/{slot.seed}" for slot in order(["fp32", "bf16", "fp16"], [4, 2, 9, 1])]
    assert trace == [
        *("fp32/4", "bf16/4", "fp16/4"),
        *("bf16/2", "fp16/2", "fp32/2"),
        *("fp16/9", "fp32/9", "bf16/9"),
        *("fp32/1", "bf16/1", "fp16/1"),
    ]


@given(CANDIDATES, SEEDS)
def test_every_candidate_runs_once_on_every_seed_and_seeds_do_not_mix(candidates, seeds):
    slots = order(candidates, seeds)
    assert Counter((slot.candidate, slot.seed) for slot in slots) == Counter((c, s) for c in candidates for s in seeds)
    assert [slot.seed for slot in slots] == [seed for seed in seeds for _ in candidates]
    assert [slot.position for slot in slots] == list(range(1, len(slots) + 1))


@given(CANDIDATES, SEEDS)
def test_each_candidate_is_first_on_a_seed_as_often_as_any_other_within_one(candidates, seeds):
    first = Counter(slot.candidate for slot in order(candidates, seeds)[:: len(candidates)])
    counts = [first[candidate] for candidate in candidates]
    assert max(counts) - min(counts) <= 1


@given(CANDIDATES, SEEDS, st.data())
def test_what_remains_keeps_its_order_and_place(candidates, seeds, data):
    slots = order(candidates, seeds)
    done = data.draw(st.sets(st.sampled_from(slots)))
    left = remaining(slots, {(slot.candidate, slot.seed) for slot in done})
    assert left == tuple(slot for slot in slots if slot not in done)
