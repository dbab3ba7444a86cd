"""Watching a training loop while it runs, without changing a bit of it: calls become events, gradients become numbers."""

from __future__ import annotations

from truestep.audit.trace.settings import Settings
from truestep.audit.trace.watch import Watcher


def start(settings: Settings | None = None) -> Watcher:
    """Begins to watch this process; torch has to be imported by then."""
    watcher = Watcher(settings or Settings())
    watcher.start()
    return watcher
