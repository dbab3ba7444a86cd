"""The result: what an update takes, predicted from shapes, measured beside it, and beside other choices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from truestep.footprint import report
from truestep.footprint.log import Attempts, Categories


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The same window under another policy or in other microbatches, predicted."""

    policy: str
    microbatches: int
    peak_bytes: int
    each: Categories


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What the attempts of one update take: `str()` is the report, `record()` the same for JSON, all in bytes."""

    subject: str
    """The task's name, or the model's class."""
    policy: str
    optimizer: str
    device: str
    microbatches: int
    parameters: int
    """Elements of all parameters, tied ones once."""
    frozen: int
    """Of them, elements that take no gradient, hence no moments."""
    predicted: Attempts | None
    not_predicted: str | None
    """Why there is no prediction; None where there is one."""
    measured: Attempts | None
    not_measured: str | None
    """Why nothing was measured; None where it was."""
    beside: tuple[Beside, ...]

    @property
    def peak_bytes(self) -> int:
        """The measured peak, or else the predicted one, of first and later attempts."""
        found = self.measured or self.predicted
        assert found is not None
        return found.peak_bytes

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured, of the peaks; None where one of them is missing."""
        if self.predicted is None or self.measured is None:
            return None
        return self.predicted.peak_bytes / self.measured.peak_bytes - 1.0

    def record(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "schema": 1,
            "kind": "footprint",
            **asdict(self),
            "peak_bytes": self.peak_bytes,
            "relative_error": self.relative_error,
        }

    def __str__(self) -> str:
        """The report as plain text."""
        return report.text(self)
