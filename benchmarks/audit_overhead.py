"""What an audit costs: the same loop watched and alone, turn by turn in one process, in milliseconds and in memory.

usage: audit_overhead.py [ROUNDS [SIZE ...]]      (default: 7 rounds of 0.03, 1 and 10)
A decoder of 0.03, 1 and 10 million parameters, bfloat16 autocast on CPU, an enabled GradScaler, unscale_, clip, fused AdamW, a
linear schedule, one thread, accumulation 1 and 4. In each round the loop runs alone, then watched from its first update on:
`dense` are the windows that an audit judges at its start, `judged` the few that it judges after each power of two, `between`
the windows between those, which are all but a handful of a long run. The ratios are taken round by round. `again` is the
loop alone a second time, the noise floor. Times are the process's own, which other work on the machine disturbs less. Memory is
that of tensors, at the highest point of two updates, beyond the same point of the loop alone, in copies of the gradients.
"""

import contextlib
import statistics
import sys
import time
import warnings

import torch
from torch import nn

from truestep.audit.trace import start
from truestep.audit.trace.recorder import DENSE, RUN

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
CHOSEN = sys.argv[2:] or ["0.03", "1", "10"]
SIZES = {"0.03": (32, 2), "1": (128, 5), "10": (320, 8)}
VOCABULARY, BATCH, LENGTH = 64, 4, 32
POWER = 32
"""The windows from this one on are those timed after the start: RUN judged ones, then some that are not."""
BETWEEN = {"0.03": 24, "1": 16, "10": 8}


class Decoder(nn.Module):
    """A small GPT."""

    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, tokens):
        """Logits for each place."""
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


class Loop:
    """A training loop as people write it, one update at a time."""

    def __init__(self, size, micro):
        torch.manual_seed(0)
        self.micro = micro
        self.model = Decoder(*SIZES[size])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=1000)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.tokens = torch.randint(0, VOCABULARY, (micro, BATCH, LENGTH + 1))

    def update(self):
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

    def milliseconds(self, updates):
        """Of the process's own time, for one update."""
        begun = time.process_time()
        for _ in range(updates):
            self.update()
        return (time.process_time() - begun) / updates * 1e3


def watched(loop, between):
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
def tensor_memory():
    """Bytes of tensors at the highest point of what runs inside, beyond what there was, as one number in a list."""
    found = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        yield found
    held = highest = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    found.append(highest)


def peak(loop):
    """Bytes at the highest point of two updates."""
    with tensor_memory() as found:
        loop.update()
        loop.update()
    return found[0]


def memory(size, micro):
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


def spread(values, digits=3):
    """Median, least and greatest."""
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def measure(size, micro):
    """Prints what an audit costs a model of this size."""
    loop, between = Loop(size, micro), BETWEEN[size]
    rows = {"alone": [], "again": [], "dense": [], "judged": [], "between": []}
    for _ in range(ROUNDS + 1):
        rows["alone"].append(loop.milliseconds(between))
        for kind, spent in watched(loop, between).items():
            rows[kind].append(spent)
        rows["again"].append(loop.milliseconds(between))
    alone = rows["alone"][1:]
    print(f"{size} million parameters, accumulation {micro}: {statistics.median(alone):.2f} ms an update alone")
    for kind in ("again", "dense", "judged", "between"):
        own = rows[kind][1:]
        ratios = [each / other for each, other in zip(own, alone, strict=True)]
        more = [each - other for each, other in zip(own, alone, strict=True)]
        print(f"  {kind:8s} ratio {spread(ratios)}   {spread(more)} ms more")
    dense, light = memory(size, micro)
    print(f"  memory: {dense:.2f} copies of the gradients while judged, {light:.3f} between", flush=True)


def main():
    """All that were chosen."""
    for size in CHOSEN:
        for micro in (1, 4):
            measure(size, micro)


if __name__ == "__main__":
    main()
