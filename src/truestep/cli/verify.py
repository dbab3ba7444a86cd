"""`truestep verify`: is a task's accumulated mixed-precision update the float32 full batch's?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from truestep.cli._options import loss_scale
from truestep.cli._output import print_json, print_table, stdout_is_talk
from truestep.pages.words import counted

if TYPE_CHECKING:
    from truestep.engine.clip import Clip
    from truestep.verification.result import Verification

_FAILED = 1


@dataclass(frozen=True, kw_only=True)
class Command:
    """Hold the gradient at the optimizer against the plain float32 full batch, parameter by parameter, judged by float64.

    The first attempts of a run are made, each from where the one before has ended. Exit code 1: a gap is larger than what the
    formats explain, or nothing could be compared.
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A built-in task (see truestep tasks), or FILE.py:NAME."""

    policy: str = "fp16"
    """fp32, tf32, bf16, fp16, or another of truestep's policies."""

    accumulate: int | None = None
    """Microbatches of a window; None: the task's."""

    attempts: int = 8
    """Attempts to compare."""

    scale: str | None = None
    """The loss scale: dynamic, dynamic:INIT, static:VALUE or none; None: the policy's."""

    clip: float | None = None
    """The largest gradient norm, in original units."""

    seed: int = 0
    """Decides initial weights, order of the data, and all that is drawn."""

    device: str | None = None
    """cpu, cuda or cuda:N; None: the CUDA device where there is one."""

    all: bool = False
    """Print every parameter, and not only the worst 20."""

    json: bool = False
    """Print one JSON document on stdout instead of the table."""

    def run(self) -> int:
        """Verify, print; 0, or 1 where it failed."""
        from truestep.verification.verify import verify  # noqa: PLC0415  # --help must not wait for torch

        with stdout_is_talk(self.json):  # a task's own prints are no part of the document
            result = verify(
                self.task,
                policy=self.policy,
                microbatches=self.accumulate,
                seed=self.seed,
                device=self.device,
                scale=loss_scale(self.scale),
                clip=self._clip(),
                attempts=self.attempts,
            )
        if self.json:
            print_json(result.record())
        else:
            _print(result, every=self.all)
        return 0 if result.passed else _FAILED

    def _clip(self) -> Clip | None:
        from truestep.engine.clip import ClipNorm  # noqa: PLC0415 - --help does not wait for it

        return None if self.clip is None else ClipNorm(self.clip)


def _print(result: Verification, *, every: bool) -> None:
    """Verdict and cause, the table, then what it rests on."""
    from truestep.verification.result import SHOWN  # noqa: PLC0415 - --help does not wait for it
    from truestep.verification.rows import COLUMNS  # noqa: PLC0415 - --help does not wait for it

    title, *head = result.head()
    for line in head:
        print(line)
    print()
    rows = result.rows if every else result.rows[:SHOWN]
    print_table(title, COLUMNS, (row.cells() for row in rows), words=2)
    if len(rows) < len(result.rows):
        print(f"and {counted(len(result.rows) - len(rows), 'parameter')} more (--all)")
    print()
    for line in result.tail():
        print(line)
