"""`truestep memory`: what an update takes, predicted and measured for a task, or by formula for a number of parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from truestep.cli._output import print_json, print_table, stdout_is_talk
from truestep.errors import UsageError

if TYPE_CHECKING:
    from truestep.footprint import Footprint, Formula


@dataclass(frozen=True, kw_only=True)
class Command:
    """Print what memory an update takes, by category: a task's, predicted and measured, or that of --params by formula.

    GB is 10^9 bytes, GiB is 2^30.
    """

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A built-in task (see truestep tasks), or FILE.py:NAME; leave it out with --params."""

    params: str | None = None
    """A number of parameters in place of a task: 7.5e9, 7.5B, 350M."""

    policy: str = "fp16"
    """The precision policy."""

    optimizer: str | None = None
    """With --params: adamw, sgd, sgd-momentum, adagrad, rmsprop, lion and others; None: adamw."""

    accumulate: int | None = None
    """Microbatches of a window; None: the task's own, 1 with --params."""

    shards: int = 1
    """With --params: among how many it is divided (ZeRO)."""

    shard: Literal["states", "gradients", "parameters"] | None = None
    """What is divided, each with all before it: ZeRO stage 1, 2 or 3; None: a row for each."""

    predict: bool = False
    """Predict a task from its shapes alone, and measure nothing."""

    seed: int = 0
    """Of the task's weights and data."""

    device: str | None = None
    """Where a task is measured; None: the CUDA device where there is one, else the CPU."""

    json: bool = False
    """Print one JSON document instead."""

    def run(self) -> int:
        """Ask, print; 0."""
        with stdout_is_talk(self.json):  # a task's own prints are no part of the document
            found = self._found()
        if self.json:
            print_json(found.record())
        elif self.params is None:
            _print_footprint(found)  # type: ignore[arg-type]  # a task has a footprint
        else:
            _print_formula(found)  # type: ignore[arg-type]  # and a number a formula
        return 0

    def _found(self) -> Footprint | Formula:
        from truestep.footprint import memory  # noqa: PLC0415  # --help must not wait for torch

        if self.params is None:
            if self.task is None:
                raise UsageError("neither a task nor --params was given", hint="truestep memory digits, or --params 7.5B")
            if self.optimizer is not None or self.shards != 1 or self.shard is not None:
                raise UsageError("--optimizer, --shards and --shard belong to --params", hint="a task has its own optimizer")
            return memory(
                self.task,
                policy=self.policy,
                microbatches=self.accumulate,
                seed=self.seed,
                device=self.device,
                measure=not self.predict,
            )
        if self.task is not None:
            raise UsageError("a task and --params were given", hint="leave one of them out")
        if self.predict or self.device is not None or self.seed != 0:
            raise UsageError("--predict, --device and --seed belong to a task", hint="a formula runs nothing: leave them out")
        return memory(
            params=self.params,
            optimizer=self.optimizer or "adamw",
            policy=self.policy,
            microbatches=self.accumulate,
            shards=self.shards,
            shard=self.shard,
        )


def _print_footprint(found: Footprint) -> None:
    """The table, then what it does not say."""
    from truestep.footprint import report  # noqa: PLC0415 - --help does not wait for it

    print_table(report.title(found), report.COLUMNS, report.rows(found))
    print()
    for sentence in report.sentences(found):
        print(sentence)


def _print_formula(found: Formula) -> None:
    """A row for each stage, in bytes for one parameter and together, then the copies for a while."""
    from truestep.footprint.sizes import binary, readable  # noqa: PLC0415 - --help does not wait for it

    columns = [
        "divided",
        *(name for name in asdict(found.stages[0].per_parameter)),
        "bytes/parameter",
        "GB is 10^9",
        "GiB is 2^30",
    ]
    rows = [
        [
            stage.name,
            *(f"{size:.4g}" for size in asdict(stage.per_parameter).values()),
            f"{stage.per_parameter.total:.4g}",
            readable(stage.total_bytes),
            binary(stage.total_bytes),
        ]
        for stage in found.stages
    ]
    split = "" if found.microbatches == 1 else f", {found.microbatches} microbatches"
    among = "" if found.shards == 1 else f", one of {found.shards} shards"
    print_table(f"{found.parameters:,} parameters, {found.policy}, {found.optimizer}{split}{among}", columns, rows)
    print()
    if found.transients:
        print_table(
            "Copies for a while, beside that",
            ["copy", "when", "bytes/parameter"],
            [[each.name, each.when, str(each.bytes_per_parameter)] for each in found.transients],
            words=2,
        )
        print()
    for note in found.notes:
        print(note)
