"""Precisions compared by time to quality under a fixed protocol."""

from truestep.compare.candidate import Candidate
from truestep.compare.order import Slot, order
from truestep.compare.protocol import Protocol
from truestep.compare.verdict import Summary, summarize

__all__ = ["Candidate", "Protocol", "Slot", "Summary", "order", "summarize"]
