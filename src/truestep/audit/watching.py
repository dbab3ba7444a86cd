"""Auditing a part of a running process: a notebook's cell, a test, a function of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from truestep.audit.finding import Finding
from truestep.errors import StateError


class Findings(list[Finding]):
    """What was found; empty until the watch has ended. Printed, it is the report.

    `coverage` says what was judged, and what was not and why.
    """

    coverage: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.coverage = {}

    @property
    def faults(self) -> list[Finding]:
        """Errors and warnings: all but the notes."""
        return [finding for finding in self if finding.severity != "note"]

    def __str__(self) -> str:
        """The report, as `truestep audit` prints it."""
        from truestep.audit.report.extent import judged  # noqa: PLC0415 - only where it is read
        from truestep.audit.report.text import lines, summary  # noqa: PLC0415 - only where it is read

        unjudged = [f"{each['what']} ({each['why']})" for each in self.coverage.get("not_judged", ())]
        told = [line for finding in self for line in lines(finding)]
        extent = None if self.faults else judged(self.coverage)
        return "\n".join([*told, *([extent] if extent else []), summary(self, not_judged=unjudged)])


_watching = False


@contextmanager
def watch(*, device: str | None = None) -> Iterator[Findings]:
    """Everything that trains inside is watched, and judged when the block is left, by an exception too.

    Optimizers, scalers and models may exist before. The run is not changed: weights, random state, hooks and counts are as
    without it. One watch at a time. `device="cpu"` sends to the processor what names CUDA.

    Raises:
        StateError: inside of another watch.

    Example:
        >>> import torch, truestep
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with truestep.audit.watch() as findings:
        ...     for x in torch.randn(2, 8, 4):
        ...         model(x).pow(2).mean().backward()
        ...         optimizer.step()  # and the gradients are never cleared
        >>> [finding.rule for finding in findings.faults]
        ['zero-grad-placement']
    """
    from truestep.audit.judge import judge  # noqa: PLC0415 - torch's parts, and every rule: not for those who do not audit
    from truestep.audit.report.extent import NOTHING, extent  # noqa: PLC0415
    from truestep.audit.story import Story  # noqa: PLC0415
    from truestep.audit.trace import start  # noqa: PLC0415
    from truestep.audit.trace.settings import Settings  # noqa: PLC0415

    global _watching  # noqa: PLW0603 - what is watched is the process
    if _watching:
        raise StateError("a watch was begun inside of another", hint="one watch sees all that trains in the process")
    _watching = True
    findings = Findings()
    watcher = start(Settings(device=device))
    try:
        yield findings
    except BaseException as error:
        watcher.raised(error)
        raise
    finally:
        watcher.stop()
        _watching = False
        story = Story(events=tuple(watcher.recorder.events), totals=watcher.recorder.totals())
        findings.extend(judge(story))
        findings.coverage = watcher.recorder.coverage() | extent([story])
        if not findings.coverage["attempts"]:
            findings.coverage["not_judged"].append(NOTHING)
