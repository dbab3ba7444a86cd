"""Outcomes kept on disk, and shown where a tracker shows them."""

from truestep.ledger.alarm import Alert, SkipAlarm
from truestep.ledger.ledger import Ledger
from truestep.ledger.reading import outcomes, read
from truestep.ledger.summary import Summary, summarize

__all__ = ["Alert", "Ledger", "SkipAlarm", "Summary", "outcomes", "read", "summarize"]
