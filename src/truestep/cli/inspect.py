"""`truestep inspect`: where a task's numbers lie in each number format, layer by layer, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from truestep.cli._options import demand_writable, loss_scale
from truestep.cli._output import print_json, print_table, stdout_is_talk
from truestep.pages.inspection.headline import advice, headline
from truestep.pages.inspection.operations import alike
from truestep.pages.inspection.wording import exponent_in_use, layer, magnitudes, power, scales
from truestep.pages.words import SPACE, percent

Record = Mapping[str, Any]

_KINDS = {"activation gradients": "act. grads", "weight gradients": "weight grads", "gradients at the optimizer": "opt. grads"}
"""As short as 80 columns want them."""
_FATES = ("flushed", "subnormal", "overflowed")
_FATE_COLUMNS = ("zero", "subnormal", "overflow")


@dataclass(frozen=True, kw_only=True)
class Command:
    """Show where weights, activations, gradients and updates lie in each number format: predicted, and measured.

    A few attempts of a run are looked at, early and late ones. --html draws them over the format's number line.
    Exits with 1 where weights are not finite: all of it is printed, and means little.
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A built-in task (see truestep tasks), or FILE.py:NAME."""

    policy: str = "fp16"
    """fp32, tf32, bf16, fp16, or another of truestep's policies."""

    accumulate: int | None = None
    """Microbatches of a window; None: the task's."""

    attempts: int = 4
    """Attempts to inspect."""

    after: int = 8
    """Attempts before the last inspected one, over which the others are spread."""

    scale: str | None = None
    """The loss scale: dynamic, dynamic:INIT, static:VALUE or none; None: the policy's."""

    seed: int = 0
    """Decides initial weights, order of the data, and all that is drawn."""

    device: str | None = None
    """cpu, cuda or cuda:N; None: the CUDA device where there is one."""

    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the page with the picture there too: one file, which asks nothing of the network."""

    json: bool = False
    """Print one JSON document on stdout instead of tables."""

    def run(self) -> int:
        """Inspect, write the page, print."""
        if self.html is not None:
            demand_writable(self.html)
        record = self._inspected()
        if self.html is not None:
            from truestep.pages.inspection import write  # noqa: PLC0415  # the templates are slow to import

            write(record, self.html)
            print(f"page  {self.html}", file=sys.stderr)
        if self.json:
            print_json(record)
        else:
            _print(record)
        return _said_of_weights(record)

    def _inspected(self) -> dict[str, Any]:
        from truestep.inspection.inspect import inspect  # noqa: PLC0415  # --help must not wait for torch

        with stdout_is_talk(self.json):  # a task's own prints are no part of the document
            return inspect(
                self.task,
                policy=self.policy,
                microbatches=self.accumulate,
                attempts=self.attempts,
                after=self.after,
                seed=self.seed,
                device=self.device,
                scale=loss_scale(self.scale),
            ).record()


def _said_of_weights(record: Record) -> int:
    """The exit code: 1, said on stderr, where weights are not finite, for then the other numbers mean little."""
    bad = [row for row in record["numbers"] if row["kind"] == "weights" and row["spread"]["infinities"] + row["spread"]["nans"]]
    for row in bad:
        spread = row["spread"]
        found = f"{spread['infinities']:,} infinite and {spread['nans']:,} NaN of {spread['elements']:,}"
        print(f"weights of {layer(row)} are not finite ({found}): what else was counted means little", file=sys.stderr)
    return 1 if bad else 0


def _print(record: Record) -> None:
    """Where the numbers lie, what is lost of them, every format, the operations, the advice, the notes."""
    head = headline(record)
    print(f"{head.title}. {head.lead}")
    rows = [*record["whole"], *record["numbers"]]
    named = [(layer(row), _KINDS.get(row["kind"], row["kind"]), row) for row in rows]
    print()
    where = ["layer", "kind", "magnitudes", "zeros", "scales that lose nothing"]
    lie = [(name, kind, magnitudes(row), f"{row['spread']['zeros']:,}", scales(row)) for name, kind, row in named]
    print_table("Where the numbers lie", where, lie, words=2)
    print()
    columns = ["layer", "kind", "format", *_FATE_COLUMNS]
    lost = [(name, kind, row["format"], *_predicted(row["at_one"])) for name, kind, row in named]
    print_table("Lost at scale 1, in % of the numbers that are not zero", columns, lost, words=3)
    print()
    lost = [(name, kind, row["format"], *_predicted(row["in_use"]), *_measured(row["measured"])) for name, kind, row in named]
    title = "Lost at the loss scale in use, in %: predicted, then as measured"
    print_table(title, [*columns, "zero", "overflow"], lost, words=3)
    _print_formats(record)
    _print_rest(record)


def _print_formats(record: Record) -> None:
    """Every format at scale 1 and, of gradients, at the scale in use."""
    exponent = exponent_in_use(record)
    gradients = [row for row in record["whole"] if row["scales"] is not None]
    title = "Zero or overflow in each format, all layers together, in %, at scale"
    for rows, scale, cells in ((record["whole"], "1", _by_format), (gradients, power(exponent), _at_scale(exponent))):
        if rows and (exponent or scale == "1"):
            print()
            print_table(f"{title} {scale}", ["format", *(_KINDS.get(row["kind"], row["kind"]) for row in rows)], cells(rows))


def _print_rest(record: Record) -> None:
    """Updates, operations, advice, notes."""
    if record["movements"]:
        formats = list(record["movements"][0]["stuck"])
        moves = [(each["parameter"], *(_percent(each["stuck_share"][name]) for name in formats)) for each in record["movements"]]
        print()
        print_table("Updates too small to move a weight stored in the format, in %", ["parameter", *formats], moves)
    if record["operations"]:
        ran = [(*each[:4], f"{each[5]:,}", str(len(each[6]))) for each in alike(record)]
        print()
        print_table("Operations", ["operation", "pass", "ran in", "cast from", "calls", "layers"], ran, words=4)
    print()
    for entry in advice(record):
        for text, reason, _ in entry.said:
            print(f"{entry.layer}: {text} ({reason})")
    for note in record["notes"]:
        print(note)


def _by_format(rows: list[Record]) -> list[list[str]]:
    """A row for each format; for MX blocks and for one scale by tensor, a row each, with ~ where blocks were drawn."""
    columns = []
    for row in rows:
        by_tensor = {f"{name}, by tensor": each for name, each in row["per_tensor"].items()}
        about = "" if row["block_error"] is None else "~"
        drawn = {name: f"{about}{_lost(each)}" for name, each in (row["blocks"] | by_tensor).items()}
        columns.append({name: _lost(each) for name, each in row["formats"].items()} | drawn)
    return _rows(columns)


def _at_scale(exponent: int) -> Callable[[list[Record]], list[list[str]]]:
    """A row for each format at scale 2^exponent, from the rows' tables; a dash where they do not reach so far."""

    def lost(table: Record, nonzero: int) -> str:
        place = exponent - table["from"]
        reached = nonzero and 0 <= place < len(table["flushed"])
        return _percent((table["flushed"][place] + table["overflowed"][place]) / nonzero if reached else None)

    def cells(rows: list[Record]) -> list[list[str]]:
        return _rows([{name: lost(table, row["spread"]["nonzero"]) for name, table in row["tables"].items()} for row in rows])

    return cells


def _rows(columns: list[dict[str, str]]) -> list[list[str]]:
    names = dict.fromkeys(name for column in columns for name in column)
    return [[name, *(column.get(name, "-") for column in columns)] for name in names]


def _predicted(losses: Record) -> list[str]:
    return [_percent(losses[f"{fate}_share"]) for fate in _FATES]


def _measured(found: Record | None) -> list[str]:
    return ["-", "-"] if found is None else [_percent(found[f"{fate}_share"]) for fate in ("flushed", "overflowed")]


def _lost(losses: Record) -> str:
    elements = losses["elements"]
    return _percent((losses["flushed"] + losses["overflowed"]) / elements if elements else None)


def _percent(share: float | None) -> str:
    """Without its sign, which stands in the title; a dash for none.

    >>> _percent(0.125), _percent(0.0), _percent(None)
    ('12.5', '0', '-')
    """
    return "-" if share is None else percent(share).removesuffix(f"{SPACE}%")
