"""The order of the data is a function of seed and epoch, and of nothing else."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from truestep.run.sampling import derived, order, windows_of

SIZES = st.integers(1, 50)


def test_an_order_is_the_same_whatever_was_drawn_before() -> None:
    torch.manual_seed(1)
    first = order(100, seed=3, epoch=2)
    torch.rand(7)
    assert torch.equal(first, order(100, seed=3, epoch=2))


def test_drawing_an_order_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    order(100, seed=3, epoch=2)
    assert torch.equal(before, torch.get_rng_state())


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {tuple(order(100, seed=seed, epoch=epoch).tolist()) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


@given(SIZES, st.integers(0, 2**40), st.integers(0, 1000))
def test_an_epoch_holds_every_example_once(examples: int, seed: int, epoch: int) -> None:
    assert sorted(order(examples, seed=seed, epoch=epoch).tolist()) == list(range(examples))


@given(SIZES, SIZES, SIZES)
def test_windows_keep_the_order_and_hold_a_batch_each_but_the_last(examples: int, batch: int, microbatches: int) -> None:
    windows = windows_of(torch.arange(examples), batch=batch, microbatches=microbatches)
    assert [index for window in windows for part in window for index in part.tolist()] == list(range(examples))
    sizes = [sum(map(len, window)) for window in windows]
    assert sizes[:-1] == [batch] * (len(windows) - 1)
    assert 1 <= sizes[-1] <= batch


@given(SIZES, SIZES, SIZES)
def test_microbatches_differ_by_one_example_at_most_and_none_is_empty(examples: int, batch: int, microbatches: int) -> None:
    for window in windows_of(torch.arange(examples), batch=batch, microbatches=microbatches):
        sizes = [len(part) for part in window]
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == min(microbatches, sum(sizes))


def test_each_purpose_has_a_seed_that_every_generator_takes() -> None:
    seeds = [derived(seed, word) for seed in (-1, 0, 1, 2**70) for word in ("weights", "training", "evaluation")]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
