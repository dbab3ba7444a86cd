"""Judging other people's training loops: what they did, whether it was right, and how large the damage is."""

from __future__ import annotations

from truestep.audit.finding import Finding
from truestep.audit.watching import Findings, watch

__all__ = ["Finding", "Findings", "watch"]
