"""The result: what is known of an update's memory, with its report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from truestep.footprint import report
from truestep.footprint.facts import Facts


@dataclass(frozen=True, kw_only=True)
class Footprint(Facts):
    """What the attempts of one update take: `str()` is the report, `record()` the same for JSON, all in bytes."""

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
