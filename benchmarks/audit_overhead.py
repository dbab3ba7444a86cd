"""What an audit costs: the same loop watched and alone, turn by turn in one process, in milliseconds and in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.rounds import Spread, ratios, seconds_of
from benchmarks.table import Table
from truestep.audit.trace import start
from truestep.audit.trace.recorder import DENSE, RUN

SETTINGS = (("0.03", 1, 3), ("0.03", 4, 2), ("1", 1, 2))
QUICK = (("0.03", 1, 1),)
"""Size, accumulation, and rounds after one that does not count; a size of 10 is there too, and takes minutes."""
KINDS = ("again", "dense", "judged", "between")
SIZES = {"0.03": (32, 2), "1": (128, 5), "10": (320, 8)}
VOCABULARY, BATCH, LENGTH = 64, 4, 32
POWER = 32
"""The windows from this one on are those timed after the start: RUN judged ones, then some that are not."""
BETWEEN = {"0.03": 24, "1": 16, "10": 8}

HOW = """
A small GPT, bfloat16 autocast, GradScaler, clip, fused AdamW, one thread, seconds of the processor. In each round the loop
runs alone, then watched from its first update on, then alone `again`, which is the noise. `dense` are the 24 windows judged
at the start, `judged` those after each power of two, `between` all others, which are nearly all of a long run. Ratios to
the same loop alone, median [5 %, 95 %] of the rounds. Memory is that of tensors at the highest point of two updates, beyond
the same point of the loop alone, in copies of the gradients.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One size of model, at one accumulation."""

    size: str
    micro: int
    alone_ms: float
    kinds: dict[str, Spread]
    judged_copies: float
    between_copies: float


class Decoder(nn.Module):
    """A small GPT."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits for each place."""
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


class Loop:
    """A training loop as people write it, one update at a time."""

    def __init__(self, size: str, micro: int) -> None:
        torch.manual_seed(0)
        self.micro = micro
        self.model = Decoder(*SIZES[size])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=1000)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.tokens = torch.randint(0, VOCABULARY, (micro, BATCH, LENGTH + 1))

    def update(self) -> None:
        """One window, clipped, stepped and cleared."""
        for tokens in self.tokens:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = self.model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / self.micro
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad()

    def milliseconds(self, updates: int) -> float:
        """Of the process's own time, for one update."""
        return seconds_of(lambda: [self.update() for _ in range(updates)]) / updates * 1e3


def watched(loop: Loop, between: int) -> dict[str, float]:
    """Milliseconds an update of each kind of window, in one audit from its start."""
    watcher = start()
    try:
        found = {"dense": loop.milliseconds(DENSE - 1)}
        for _ in range(POWER - DENSE + 1):
            loop.update()
        assert watcher.recorder.chunk == POWER - 1
        found["judged"] = loop.milliseconds(RUN)
        loop.update()
        assert not watcher.recorder.judging
        found["between"] = loop.milliseconds(between)
        return found
    finally:
        watcher.stop()


@contextlib.contextmanager
def tensor_memory() -> Iterator[list[int]]:
    """Bytes of tensors at the highest point of what runs inside, beyond what there was, as one number in a list."""
    found: list[int] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        yield found
    held = highest = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    found.append(highest)


def peak(loop: Loop) -> int:
    """Bytes at the highest point of two updates."""
    with tensor_memory() as found:
        loop.update()
        loop.update()
    return found[0]


def memory(size: str, micro: int) -> tuple[float, float]:
    """Copies of the gradients that the audit holds at most: in judged windows, and between them."""
    loop = Loop(size, micro)
    for _ in range(3):
        loop.update()
    copy = sum(each.numel() * each.element_size() for each in loop.model.parameters())
    alone = peak(loop)
    watcher = start()
    try:
        loop.update()
        dense = peak(loop)
        while watcher.recorder.judging:
            loop.update()
        between = peak(loop)
        assert not watcher.recorder.judging
    finally:
        watcher.stop()
    return (dense - alone) / copy, (between - alone) / copy


def measure(size: str, micro: int, rounds: int) -> Row:
    """What an audit costs a model of this size."""
    loop, between = Loop(size, micro), BETWEEN[size]
    spent: dict[str, list[float]] = {kind: [] for kind in ("alone", *KINDS)}
    for _ in range(rounds + 1):
        spent["alone"].append(loop.milliseconds(between))
        for kind, milliseconds in watched(loop, between).items():
            spent[kind].append(milliseconds)
        spent["again"].append(loop.milliseconds(between))
    alone = spent["alone"][1:]
    dense, light = memory(size, micro)
    return Row(
        size=size,
        micro=micro,
        alone_ms=Spread.of(alone).median,
        kinds={kind: ratios(spent[kind][1:], alone) for kind in KINDS},
        judged_copies=dense,
        between_copies=light,
    )


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    return Table(
        title="What an audit costs",
        how=HOW,
        columns=("million parameters, accumulation", "alone, ms", *KINDS, "memory, judged / between"),
        rows=tuple(
            (
                f"{each.size}, {each.micro}",
                f"{each.alone_ms:.2f}",
                *(each.kinds[kind].text(2) for kind in KINDS),
                f"{each.judged_copies:.2f} / {each.between_copies:.3f}",
            )
            for each in rows
        ),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of([measure(*setting) for setting in (QUICK if quick else SETTINGS)])]
