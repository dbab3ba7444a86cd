"""Outcomes kept on disk."""

from truestep.ledger.ledger import Ledger
from truestep.ledger.reading import outcomes, read
from truestep.ledger.summary import Summary, summarize

__all__ = ["Ledger", "Summary", "outcomes", "read", "summarize"]
