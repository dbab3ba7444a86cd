"""What an audit of a process is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a process is watched."""

    max_updates: int | None = None
    """Attempts of one optimizer after which the script is ended; None lets it run to its end."""
    right: bool = False
    """Each optimizer is given the right gradient where the one that it was about to use differs: this changes the run."""
    device: str | None = None
    """Where everything that names CUDA goes instead; None leaves devices alone."""
