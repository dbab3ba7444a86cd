"""An order of data goes on where its consumer stood, and what is drawn at random follows from (seed, epoch, index) alone."""

import gc
import itertools
import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

import truestep
from tests.profile import product
from truestep import Update
from truestep.checkpoint import Checkpoints
from truestep.errors import StateError, UsageError
from truestep.run import Shuffled

WORKERS = [0, 1, 2]


class Augmented:
    """10 items, each with a draw of every global generator that an augmentation may use."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([index, torch.rand(1).item(), np.random.rand(), random.random()], dtype=torch.float64)


def drawing(items: list[Tensor]) -> Tensor:
    """Collates, and draws once for the whole microbatch."""
    return torch.stack(items) + torch.rand(1, dtype=torch.float64)


def taken(data: Any, microbatches: int) -> list[Any]:
    """So many microbatches, over the ends of epochs, as lists."""
    passes = itertools.chain.from_iterable(iter(data) for _ in itertools.count())
    return [microbatch.tolist() for microbatch in itertools.islice(passes, microbatches)]


def everything() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]


@pytest.mark.parametrize("collate", [torch.stack, drawing])
@pytest.mark.parametrize("workers", WORKERS[1:])
def test_random_items_are_the_same_for_any_number_of_workers(workers: int, collate: Callable[..., Any]) -> None:
    here = taken(Shuffled(Augmented(), batch=3, seed=5, collate=collate), 9)
    assert taken(Shuffled(Augmented(), batch=3, seed=5, workers=workers, collate=collate), 9) == here


def test_an_item_is_drawn_anew_in_each_epoch_and_alike_in_each_split_and_under_each_history() -> None:
    items = {}
    for batch in (3, 10):
        torch.rand(batch)
        found = [item for microbatch in taken(Shuffled(Augmented(), batch=batch, seed=5), 12) for item in microbatch]
        items[batch] = found[:30]
    assert items[3] == items[10]
    assert len({tuple(item) for item in items[3]}) == 30


def test_items_of_other_seeds_are_drawn_otherwise() -> None:
    first, second = (sorted(taken(Shuffled(Augmented(), batch=10, seed=seed), 1)[0]) for seed in (1, 2))
    assert [item[0] for item in first] == [item[0] for item in second] == list(range(10))
    assert not {item[1] for item in first} & {item[1] for item in second}


@pytest.mark.parametrize("workers", WORKERS)
def test_reading_moves_no_random_state_of_this_process(workers: int) -> None:
    before = everything()
    taken(Shuffled(Augmented(), batch=3, seed=5, workers=workers, collate=drawing), 6)
    assert everything() == before


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("stand", [0, 1, 3, 4, 6])
def test_the_position_is_the_consumers_whatever_was_read_ahead(stand: int, workers: int) -> None:
    undisturbed = taken(Shuffled(Augmented(), batch=3, seed=5, collate=drawing), 12)
    data = Shuffled(Augmented(), batch=3, seed=5, workers=workers, collate=drawing)
    assert taken(data, stand) == undisturbed[:stand]
    again = Shuffled(Augmented(), batch=3, seed=5, workers=2 - workers, collate=drawing)
    again.load_state_dict(data.state_dict())
    assert taken(again, 12 - stand) == undisturbed[stand:]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.integers(0, 12))
def test_another_batch_goes_on_with_the_same_examples(size: int, batch: int, other: int, stand: int) -> None:
    def flat(microbatches: list[list[int]]) -> list[int]:
        return [index for microbatch in microbatches for index in microbatch]

    data = Shuffled(range(size), batch=batch, seed=1)
    seen = flat(taken(data, stand))
    again = Shuffled(range(size), batch=other, seed=1)
    again.load_state_dict(data.state_dict())
    seen += flat(taken(again, 20))
    assert seen == flat(taken(Shuffled(range(size), batch=1, seed=1), len(seen)))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_pass_ends_with_its_epoch_and_the_last_microbatch_may_be_short(workers: int) -> None:
    data = Shuffled(range(10), batch=4, seed=0, workers=workers)
    passes = []
    for epoch in range(3):
        assert data.epoch == epoch
        passes.append([microbatch.tolist() for microbatch in data])
    assert [[len(microbatch) for microbatch in each] for each in passes] == [[4, 4, 2]] * 3
    assert len(data) == 3
    orders = [tuple(itertools.chain.from_iterable(each)) for each in passes]
    assert [sorted(order) for order in orders] == [list(range(10))] * 3
    assert len(set(orders)) == 3


def test_a_pass_that_was_left_is_gone_on_with() -> None:
    data = Shuffled(range(10), batch=4, seed=0)
    whole = taken(Shuffled(range(10), batch=4, seed=0), 3)
    first = next(iter(data)).tolist()
    assert [first, *(microbatch.tolist() for microbatch in data)] == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dropped_order_ends_its_workers_at_once_and_needs_no_garbage_collection(workers: int) -> None:
    before = set(multiprocessing.active_children())
    data = Shuffled(Augmented(), batch=3, seed=5, workers=workers)
    taken(data, 2)
    assert len(set(multiprocessing.active_children()) - before) == workers
    gc.disable()
    try:
        del data
        assert set(multiprocessing.active_children()) <= before
    finally:
        gc.enable()


class Broken(Augmented):
    """Fails once, on item 4."""

    mended = False

    def __getitem__(self, index: int) -> Tensor:
        if index == 4 and not self.mended:
            raise OSError("item 4 cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_microbatch_that_failed_is_the_next_one_again(workers: int) -> None:
    dataset = Broken()
    data = Shuffled(dataset, batch=3, seed=5, workers=workers)
    seen = []
    with pytest.raises(OSError, match="item 4 cannot be read"):
        seen.extend(microbatch.tolist() for microbatch in data)
    dataset.mended = True
    seen += taken(data, 8 - len(seen))
    assert seen == taken(Shuffled(Augmented(), batch=3, seed=5), 8)


def test_a_dataset_of_tensors_is_collated_as_by_torch() -> None:
    data = TensorDataset(torch.arange(6.0), torch.arange(6.0) * 2)
    x, y = next(iter(Shuffled(data, batch=4, seed=0)))
    assert torch.equal(2 * x, y)
    assert len(x) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 6}, "with seed 6, and here it is 5"),
        ({"size": 11}, "with size 11, and here it is 10"),
        ({"schema": 2}, "with schema 2, and here it is 1"),
    ],
)
def test_a_position_in_another_order_is_refused_and_changes_nothing(change: dict[str, int], words: str) -> None:
    data = Shuffled(Augmented(), batch=3, seed=5)
    taken(data, 2)
    state = data.state_dict()
    with pytest.raises(StateError, match=words):
        data.load_state_dict(state | {"epoch": 7} | change)
    with pytest.raises(StateError, match="no position in the data"):
        data.load_state_dict({"epoch": 7})
    assert data.state_dict() == state


@pytest.mark.parametrize(
    ("dataset", "numbers", "words"),
    [
        (range(3), {"batch": 0}, "batch is 0"),
        (range(3), {"batch": 1, "workers": -1}, "workers is -1"),
        ([], {"batch": 1}, "a list without"),
        (iter([1]), {"batch": 1}, "without a length"),
    ],
)
def test_what_cannot_be_shuffled_is_refused(dataset: Any, numbers: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Shuffled(dataset, seed=0, **numbers)


# With checkpoints.


class Noisy(nn.Module):
    """Dropout and batch normalisation: random state and buffers that have to come back too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def loss(model: nn.Module, microbatch: Tensor) -> Tensor:
    out: Tensor = model(microbatch.float())
    return out.square().mean()


def noisy_update(clock: str = "completed") -> Update[Tensor]:
    torch.manual_seed(0)
    model = Noisy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return Update(model, optimizer, loss=loss, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2), clock=clock)


def stateful(workers: int) -> StatefulDataLoader[Tensor]:
    """Its items draw nothing: what they draw, it does not bring back (torchdata 0.11).

    Its iterator draws from the global generator unless it has one, and that must not be the sampler's: without workers a resume
    then brings other orders.
    """
    items = torch.linspace(-1, 1, 40).reshape(10, 4)
    sampler = RandomSampler(items, generator=torch.Generator())  # type: ignore[arg-type]
    return StatefulDataLoader(items, batch_size=4, num_workers=workers, sampler=sampler, generator=torch.Generator())  # type: ignore[arg-type]


def shuffled(workers: int) -> Shuffled:
    return Shuffled(Augmented(), batch=4, seed=5, workers=workers)


def trained(update: Update[Tensor], data: Any, attempts: int, **saved: Any) -> list[Any]:
    """What came of each attempt; `saved` is how to save after each."""
    outcomes: list[Any] = []
    while len(outcomes) < attempts:
        for microbatch in data:
            outcome = update([microbatch])
            outcomes.append((outcome.loss, outcome.lr, outcome.grad_norm, outcome.counts))
            if saved:
                saved["checkpoints"].save(update, data=data)
            if len(outcomes) == attempts:
                break
    return outcomes


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")  # torchdata 0.11 under torch 2.14
@pytest.mark.parametrize(("stand", "loader", "workers"), product([2, 4, 5], [shuffled, stateful], [0, 2], every=5))
def test_with_checkpoints_a_loop_goes_on_bit_for_bit_in_the_middle_of_an_epoch(
    loader: Callable[[int], Any], stand: int, workers: int, tmp_path: Path
) -> None:
    undisturbed = noisy_update()
    outcomes = trained(undisturbed, loader(workers), 9)
    first = noisy_update()
    assert trained(first, loader(workers), stand, checkpoints=Checkpoints(tmp_path)) == outcomes[:stand]
    update, data = noisy_update(), loader(workers)
    torch.rand(99)
    assert Checkpoints(tmp_path).restore(update, data=data) is not None
    assert trained(update, data, 9 - stand) == outcomes[stand:]
    for name, value in undisturbed.model.state_dict().items():
        assert torch.equal(value, update.model.state_dict()[name])


def in_windows(update: Update[Tensor], data: Any, attempts: int, size: int, checkpoints: Checkpoints | None = None) -> list[Any]:
    """What came of each attempt, on windows of `size` microbatches, saved after each where that is asked."""
    outcomes: list[Any] = []
    while len(outcomes) < attempts:
        for window in truestep.windows(data, size):
            outcome = update(window)
            outcomes.append((outcome.loss, outcome.lr, outcome.microbatches, outcome.grad_norm, outcome.counts))
            if checkpoints is not None:
                checkpoints.save(update, data=data)
            if len(outcomes) == attempts:
                break
    return outcomes


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize(
    ("stand", "sizes", "source", "workers"),
    product(
        [1, 2, 3],
        [[2, 1] * 3, [3] * 6],
        [(shuffled, "epoch"), (shuffled, "completed"), (stateful, "completed")],
        [0, 2],
        every=7,
    ),
)
def test_the_position_after_a_window_is_that_of_what_was_used(
    stand: int, sizes: list[int], source: tuple[Callable[[int], Any], str], workers: int, tmp_path: Path
) -> None:
    (loader, clock), size = source, sizes[0]
    undisturbed = in_windows(noisy_update(clock), loader(workers), 6, size)
    assert [outcome[2] for outcome in undisturbed] == sizes
    if clock == "epoch":
        assert undisturbed[-1][-1].ticks == sum(sizes) // 3, "an epoch is 3 microbatches"
    before = in_windows(noisy_update(clock), loader(workers), stand, size, Checkpoints(tmp_path))
    update, data = noisy_update(clock), loader(workers)
    Checkpoints(tmp_path).restore(update, data=data)
    assert before + in_windows(update, data, 6 - stand, size) == undisturbed
