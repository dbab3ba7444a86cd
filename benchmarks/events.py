"""What else a training does, and what it takes: a ledger's line, a checkpoint, a skip with and without a look at its cause."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import ledger_cost
from benchmarks.rounds import Spread, ratios, seconds_of, taking_turns
from benchmarks.table import Table
from truestep import Checkpoints, ClipNorm, Ledger, Update

WIDTH, BATCH, MICRO = 512, 64, 4
LAYERS = 8

HOW = f"""
{LAYERS} layers of width {WIDTH}, {MICRO} microbatches of {BATCH}, bfloat16 autocast, fused AdamW, clip, one thread.
Contenders of a group take turns, in an order drawn anew each round; the ratio is to the first of the group, round by round,
median [5 %, 95 %]. Seconds of the processor; a checkpoint's and its rivals' are the wall's, because they wait for the disk. A
skip has an infinite input in its last microbatch: `update(window)` runs the window again to find the cause, an attempt block
cannot and tells from what is there, GradScaler tells none. A ledger's line is written and handed to the system, as in a
training.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender of a group."""

    group: str
    contender: str
    ms: float
    ratio: Spread | None
    """None for the first of a group."""


def model() -> nn.Module:
    """The network that all of them train."""
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def window(*, infinite: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Microbatches; the last one with an input that is not finite, if so asked."""
    torch.manual_seed(1)
    made = [(torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))) for _ in range(MICRO)]
    if infinite:
        made[-1][0][0, 0] = float("inf")
    return made


def loss_of(network: Any, both: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Of a microbatch."""
    return nn.functional.cross_entropy(network(both[0]), both[1])


def update() -> Update[Any]:
    """Ours."""
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    return Update(network, optimizer, loss=loss_of, policy="bf16", clip=ClipNorm(1.0))


class Scaled:
    """A loop with GradScaler, as people write it."""

    def __init__(self) -> None:
        self.model = model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def __call__(self, microbatches: list[Any]) -> None:
        """One update, or none."""
        for both in microbatches:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(self.model, both) / MICRO
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


def in_a_block(updating: Update[Any], microbatches: list[Any]) -> None:
    """The same attempt as a block, which cannot be run again."""
    with updating.attempt(total=MICRO * BATCH) as attempt:
        for both in microbatches:
            with attempt.autocast():
                loss = loss_of(updating.model, both)
            attempt.backward(loss, BATCH)


def rows_of(group: str, contenders: dict[str, Callable[[], float]], *, rounds: int) -> list[Row]:
    """A group's, the first contender being what the others are told from."""
    spent = taking_turns(contenders, rounds=rounds, most_seconds=20.0)
    first = next(iter(spent))
    return [
        Row(
            group=group,
            contender=name,
            ms=Spread.of(seconds).median * 1e3,
            ratio=None if name == first else ratios(seconds, spent[first]),
        )
        for name, seconds in spent.items()
    ]


def skips(rounds: int) -> list[Row]:
    """Completed attempts beside skipped ones."""
    good, bad = window(infinite=False), window(infinite=True)
    completing, running_again, telling, scaled, scaled_skips = update(), update(), update(), Scaled(), Scaled()
    rows = rows_of(
        "a skip",
        {
            "truestep, completed": lambda: seconds_of(lambda: completing(good)),
            "truestep, completed again": lambda: seconds_of(lambda: completing(good)),
            "truestep, skipped, the window run again": lambda: seconds_of(lambda: running_again(bad)),
            "truestep, skipped, told from the gradient": lambda: seconds_of(lambda: in_a_block(telling, bad)),
            "GradScaler, completed": lambda: seconds_of(lambda: scaled(good)),
            "GradScaler, skipped": lambda: seconds_of(lambda: scaled_skips(bad)),
        },
        rounds=rounds,
    )
    assert running_again.counts.completed == telling.counts.completed == 0
    assert completing.counts.completed == completing.counts.attempts > 0
    return rows


def ledgers(folder: Path, rounds: int) -> list[Row]:
    """An attempt with a ledger, and one without."""
    plain, again, kept, good = update(), update(), update(), window(infinite=False)
    with Ledger(folder / "run.jsonl", environment={}) as ledger:
        return rows_of(
            "a ledger",
            {
                "an attempt": lambda: seconds_of(lambda: plain(good)),
                "an attempt again": lambda: seconds_of(lambda: again(good)),
                "an attempt and its line": lambda: seconds_of(lambda: ledger.record(kept(good))),
            },
            rounds=rounds,
        )


def lines(folder: Path, attempts: int) -> list[Row]:
    """A line alone, written and read."""
    found = ledger_cost.measure(folder / "lines.jsonl", attempts)
    shares = (("a line, written", "write_us"), ("a line, summed up", "summarize_us"))
    return [Row(group="a ledger", contender=name, ms=found[key] / 1e3, ratio=None) for name, key in shares]


def checkpoints(folder: Path, rounds: int) -> list[Row]:
    """Saving and restoring, beside torch's own."""
    updating = update()
    updating(window(infinite=False))
    keeping, path = Checkpoints(folder / "kept", keep_last=1), folder / "state.pt"
    optimizer = updating.optimizers[0]

    def save() -> None:
        with path.open("wb") as file:
            torch.save({"model": updating.model.state_dict(), "optimizer": optimizer.state_dict()}, file)

    def load() -> None:
        state = torch.load(path, weights_only=True)
        updating.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    save()
    keeping.save(updating)
    before = copy.deepcopy(updating.model.state_dict())
    saved = rows_of(
        "a checkpoint, saved",
        {
            "torch.save": lambda: seconds_of(save, time.perf_counter),
            "torch.save again": lambda: seconds_of(save, time.perf_counter),
            "truestep: hashed, synced, whole or not at all": lambda: seconds_of(
                lambda: keeping.save(updating), time.perf_counter
            ),
        },
        rounds=rounds,
    )
    restored = rows_of(
        "a checkpoint, restored",
        {
            "torch.load": lambda: seconds_of(load, time.perf_counter),
            "torch.load again": lambda: seconds_of(load, time.perf_counter),
            "truestep: proven whole": lambda: seconds_of(lambda: keeping.restore(updating), time.perf_counter),
        },
        rounds=rounds,
    )
    assert all(torch.equal(one, before[name]) for name, one in updating.model.state_dict().items())
    return saved + restored


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    return Table(
        title="Ledger, checkpoint and skip",
        how=HOW,
        columns=("", "contender", "ms", "ratio"),
        rows=tuple(
            (each.group, each.contender, f"{each.ms:.3f}", "" if each.ratio is None else each.ratio.text()) for each in rows
        ),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    rounds = 3 if quick else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = ledgers(folder, rounds) + lines(folder, 2_000 if quick else 100_000) + checkpoints(folder, rounds) + skips(rounds)
    return [table_of(rows)]
