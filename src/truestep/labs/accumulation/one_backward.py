"""N losses summed before one backward are the full batch, at the full batch's memory: all N graphs are held at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import truestep
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

WIDTH, ROWS, N = 8, 4, 4
GRAPH_BYTES = 2 * ROWS * WIDTH * torch.float32.itemsize
"""What backward needs of one microbatch: the layer's input, and tanh's output."""
ROUNDINGS = 2 * (N * ROWS + 8) * 2.0**-24
"""Two sums over all rows, each in its order, and a few products; the terms add up to less than 1."""
HELD = "bytes held for backward"
Way = Callable[[truestep.Update[Tensor], list[Tensor]], object]


def shows() -> Shown:
    """The same window in every way: the gradient, and what was held for backward at the worst moment."""
    runs = {name: Run(way) for name, way in WAYS.items()}
    each, summed, full = (runs[name] for name in ("a backward each", "sum of losses, one backward", "full batch"))
    by_hand = plain()
    checks = (
        Check(
            what="largest difference of the gradients, one backward and the full batch by hand",
            expected=0.0,
            measured=float((summed.gradient - by_hand).abs().max()),
            within=ROUNDINGS,
            because="0 but for rounding: the same sum in another order, of terms that add up to less than 1",
        ),
        Check(
            what="bytes held at once, a backward each",
            expected=GRAPH_BYTES,
            measured=each.peak_bytes,
            because="a layer's input and tanh's output, 4 rows by 8 each: 2 x 4 x 8 x 4 bytes; each backward frees them",
        ),
        Check(
            what="bytes held at once, the full batch",
            expected=N * GRAPH_BYTES,
            measured=full.peak_bytes,
            because="the same of 16 rows",
        ),
        Check(
            what="bytes held after the window, one backward",
            expected=0,
            measured=summed.left_bytes,
            because="backward frees what it has used",
        ),
    )
    rows = tuple((name, run.peak_bytes // GRAPH_BYTES, run.peak_bytes, run.left_bytes) for name, run in runs.items())
    table = Table(title=HELD, columns=("way", "graphs at once", "bytes at once", "bytes after the window"), rows=rows)
    wrong = (_listed(runs["all forwards, then a backward each"]), _retained(runs["retain_graph=True"]))
    return Shown(checks=checks, wrong=wrong, edges=(_gone(summed),), tables=(table,))


class Held:
    """A tensor that a graph holds; it counts as long as somebody has this."""

    def __init__(self, run: Run, tensor: Tensor) -> None:
        self.tensor, self._run = tensor, run
        run.hold(tensor.nbytes)

    def __del__(self) -> None:
        """The graph has let go of it."""
        self._run.hold(-self.tensor.nbytes)


class Run:
    """One window in one way, and the bytes that its graphs held."""

    def __init__(self, way: Way) -> None:
        self.bytes = self.peak_bytes = 0
        model, weight, window = made()
        update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss)
        before = weight.detach().clone()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: Held(self, tensor), lambda held: held.tensor):
            kept = way(update, window)
        self.left_bytes = self.bytes
        del kept
        self.gradient = before - weight.detach()
        """At rate 1."""

    def hold(self, count: int) -> None:
        """So many bytes more, or fewer."""
        self.bytes += count
        self.peak_bytes = max(self.peak_bytes, self.bytes)


def made() -> tuple[torch.nn.Module, Tensor, list[Tensor]]:
    """A layer and a tanh, the layer's weight, and a window: the same every time."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(WIDTH, WIDTH)
    window = list(torch.split(torch.randn(N * ROWS, WIDTH), ROWS))
    return torch.nn.Sequential(layer, torch.nn.Tanh()), layer.weight, window


def plain() -> Tensor:
    """The gradient of all rows in one batch, by torch alone."""
    model, weight, window = made()
    return torch.autograd.grad(loss(model, torch.cat(window)), weight)[0]


def loss(model: torch.nn.Module, x: Tensor) -> Tensor:
    """The mean of all outputs."""
    return torch.mean(model(x))


def _one(update: truestep.Update[Tensor], window: list[Tensor]) -> None:
    """All losses summed in one attempt of the engine, and one backward."""
    with update.attempt(total=N) as attempt:
        with attempt.autocast():
            total = torch.stack([loss(update.model, x) for x in window]).sum() / N
        attempt.backward(total, weight=N)


def _list(update: truestep.Update[Tensor], window: list[Tensor]) -> None:
    """By hand: the losses kept in a list until all forwards are done."""
    for each in [loss(update.model, x) / N for x in window]:
        torch.autograd.backward(each)


def _retain(update: truestep.Update[Tensor], window: list[Tensor]) -> list[Tensor]:
    """By hand: a backward each that frees nothing, as a message of torch's suggests, and losses that are kept for a log."""
    losses = [loss(update.model, x) / N for x in window]
    for each in losses:
        torch.autograd.backward(each, retain_graph=True)
    return losses


WAYS: dict[str, Way] = {
    "a backward each": lambda update, window: update(window),
    "full batch": lambda update, window: update([torch.cat(window)]),
    "sum of losses, one backward": _one,
    "all forwards, then a backward each": _list,
    "retain_graph=True": _retain,
}


def _gone(summed: Run) -> Edge:
    return Edge(
        where="the graphs, until the one backward: they are all there",
        check=Check(
            what="bytes held at once, one backward",
            expected=N * GRAPH_BYTES,
            measured=summed.peak_bytes,
            because="a forward's end frees nothing that a backward will need: 4 graphs, as many bytes as the full batch holds",
        ),
    )


def _listed(listed: Run) -> Wrong:
    check = Check(
        what="bytes held at once, all forwards first",
        expected=N * GRAPH_BYTES,
        measured=listed.peak_bytes,
        because="a loss that is in a list keeps its graph",
    )
    damage = f"{listed.peak_bytes // GRAPH_BYTES} graphs at once: accumulation's only gain is gone"
    return Wrong(how="keep the losses in a list, and call backward on each afterwards", check=check, damage=damage)


def _retained(retained: Run) -> Wrong:
    check = Check(
        what="bytes still held after the window, retain_graph=True",
        expected=N * GRAPH_BYTES,
        measured=retained.left_bytes,
        because="backward was told to keep what it used, and the losses that a log keeps hold it",
    )
    return Wrong(
        how="retain_graph=True, and keep the losses for a log",
        check=check,
        damage=f"{retained.left_bytes} bytes outlive the window, and every next one adds as many; loss.item() keeps a number",
    )


LAB = Lab(
    name="one-backward",
    facts=("B10",),
    topic="accumulation",
    title="One backward for N losses",
    claim="Summing the N losses of a window and calling backward once gives the full batch's gradient, and the graph of each "
    "microbatch is gone once its loss is added.",
    source="a common account of gradient accumulation; torch.Tensor.backward says of retain_graph when a graph is freed",
    condition="the first half is true. A graph is freed by its backward, not by the end of its forward: N are held at once.",
    shows=shows,
    after=(
        After(lab="divide-by-n", why="it has a backward for each microbatch, which this one saves"),
        After(lab="memory", why="it shows what activations cost, of which this keeps N times as many"),
    ),
    asks=(
        Number(
            key="bytes",
            prompt="A backward needs 256 bytes of each of four microbatches. How many are held at the worst moment, if the "
            "losses are summed before one backward?",
            unit="bytes",
            answer=lambda shown: shown.measured("bytes held at once, one backward"),
            why="4 x 256: the sum needs all four graphs.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("bytes held at once, a backward each"),
                    why="That is a backward for each microbatch, which frees its graph before the next forward.",
                ),
                Tempting(
                    value=lambda shown: shown.measured("bytes held after the window, one backward"),
                    why="That is after it. The worst moment is just before.",
                ),
            ),
        ),
        Column(
            key="graphs",
            prompt="A window of four microbatches. How many graphs of one microbatch does each way hold at once?",
            table=lambda shown: shown.table(HELD),
            blank="graphs at once",
            why="Only a backward right after each forward holds one. All others hold what the full batch holds.",
        ),
        Choice(
            key="freed",
            prompt="What frees what a microbatch's graph holds?",
            eliminate=True,
            answer=lambda shown: shown.measured("bytes held at once, a backward each") // GRAPH_BYTES,
            options=(
                Option(text="its backward", value=1, why="So one graph is held at a time where each has its own."),
                Option(
                    text="nothing before the step",
                    value=N,
                    why="Tempting, for .grad lives until then. Then a backward each would hold four as well.",
                ),
                Option(text="the end of its forward", value=0, why="Then nothing would be left for a backward to use."),
            ),
        ),
        Open(
            key="when",
            prompt="When would you sum the losses before one backward nevertheless, and what do you pay?",
            rubric=(
                "The gradient is the same but for rounding",
                "The price is the full batch's memory for activations",
                "A reason: a loss over all microbatches at once, fewer backward calls where memory is no matter",
            ),
            strong="Where memory is no matter, or the loss needs all outputs together, as contrastive ones do. I pay the full "
            "batch's activations, and then might run the full batch.",
            weak="Always: it is less code.",
        ),
    ),
)
