"""`truestep ledger`: what a run's ledger adds up to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from truestep.cli._output import print_json
from truestep.errors import UsageError
from truestep.pages.words import NOT_MEASURED, counted, percent, seconds

if TYPE_CHECKING:
    from truestep.ledger import Summary


@dataclass(frozen=True, kw_only=True)
class Command:
    """Print what a ledger adds up to: attempts, skips by reason, examples and tokens, throughput with skip rate."""

    file: Annotated[Path, tyro.conf.Positional]
    """The ledger, as truestep.Ledger wrote it, or the folder of a truestep train."""

    json: bool = False
    """Print one JSON document instead."""

    def run(self) -> int:
        """Print the summary; 0."""
        from truestep.ledger import read, summarize  # noqa: PLC0415  # --help must not wait for torch

        summary = summarize(read(_ledger(self.file)))
        if self.json:
            print_json(summary.as_dict())
        else:
            print("\n".join(text(summary)))
        return 0


def _ledger(path: Path) -> Path:
    """The ledger at `path`, or in the run's folder there."""
    from truestep.run.folder import LEDGER  # noqa: PLC0415 - --help does not wait for it

    if not path.is_dir() or (path / LEDGER).exists():
        return path / LEDGER if path.is_dir() else path
    beside = sorted(path.glob("*.jsonl")) + sorted(path.glob("ledgers/*.jsonl"))  # of a comparison's runs
    hint = f"name one of its files, such as {beside[0]}" if beside else "name a ledger's file, or the folder of a run"
    raise UsageError(f"{path} is a folder without a {LEDGER}", hint=hint)


def text(summary: Summary) -> list[str]:
    """The summary's lines for a reader; the skip rate and the throughput share one."""
    counts = summary.counts
    lines = [
        f"run         {summary.run_id}  {', '.join(summary.policies) or 'no attempt'}  begun {summary.created}",
        f"attempts    {counts.attempts} = {counts.completed} completed + {counts.skipped} skipped",
        *(f"            {count} {reason}" for reason, count in counts.skipped_by_reason.items()),
        f"examples    {counts.examples_seen} seen, {counts.examples_applied} applied",
        "tokens      not counted"
        if counts.tokens_seen is None
        else f"tokens      {counts.tokens_seen} seen, {counts.tokens_applied} applied",
        f"ticks       {counts.ticks} of the scheduler",
        f"loss scale  {_span(summary.loss_scale)}",
        f"throughput  {_throughput(summary)}",
        *_stages(summary),
    ]
    if summary.wasted_attempts:
        lines.append(
            f"waste       {counted(summary.wasted_attempts, 'attempt')} rolled back, "
            f"{counted(summary.wasted_examples, 'example')}, "
            f"{summary.wasted_seconds:.3g} s"
        )
    if summary.missing_attempts:
        lines.append(f"missing     {counted(summary.missing_attempts, 'attempt')} without a line in this file")
    if summary.last_alert is not None:
        times = "once" if summary.alarms == 1 else f"{summary.alarms} times, last"
        lines.append(f"alarm       {times}: {summary.last_alert}")
    for name, sink in summary.sinks.items():
        lines.append(f"sink        {name} took {counted(sink.attempts, 'attempt')} in {sink.seconds:.3g} s")
        lines += [f"            dropped: {error}" for error in sink.errors]
    return lines


def _stages(summary: Summary) -> Iterator[str]:
    """What the attempts were timed by, one line a stage in the order of first use; none where none was timed."""
    whole = math.fsum(stage.seconds for stage in summary.stages.values())
    if summary.stages:
        yield f"stages      {counted(summary.staged_attempts, 'attempt')} timed, {seconds(whole)}"
    for name, stage in summary.stages.items():
        share = percent(stage.seconds / whole) if whole > 0 else NOT_MEASURED
        few = f", in {counted(stage.attempts, 'attempt')}" if stage.attempts < summary.staged_attempts else ""
        yield f"            {name} {seconds(stage.seconds)}, {share}{few}"


def _span(scale: tuple[float, float] | None) -> str:
    if scale is None:
        return "none used"
    return f"{scale[0]:g}" if scale[0] == scale[1] else f"{scale[0]:g} to {scale[1]:g}"


def _throughput(summary: Summary) -> str:
    examples = summary.examples_per_second
    rates = "not measured" if examples is None else f"{_figure(examples)} examples/s applied"
    if summary.tokens_per_second is not None:
        rates += f", {_figure(summary.tokens_per_second)} tokens/s applied"
    skipped = "no attempt" if summary.skip_rate is None else f"{percent(summary.skip_rate)} of attempts skipped"
    return f"{rates}; {skipped}"


def _figure(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"
