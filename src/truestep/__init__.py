"""Mixed-precision training whose every optimizer update can be trusted.

Mixed precision changes the arithmetic of training, so test the update. Start with `Update`, which makes effective
updates and returns an `Outcome` for each, and `Ledger`, which keeps them. `audit` judges other people's loops.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truestep import audit, errors
    from truestep.checkpoint import Checkpoint, Checkpoints, Restored, read_checkpoint, restore
    from truestep.engine.attempt import Attempt
    from truestep.engine.clip import ClipNorm, ClipValue
    from truestep.engine.clock import Every
    from truestep.engine.counts import Counts
    from truestep.engine.ema import Ema
    from truestep.engine.outcome import Outcome, Reason, Skip
    from truestep.engine.policy import Policy
    from truestep.engine.scale import LossScale
    from truestep.engine.update import Update
    from truestep.engine.windows import Window, windows
    from truestep.footprint import Footprint, Formula, memory
    from truestep.inspection.inspect import inspect
    from truestep.inspection.result import Inspection
    from truestep.ledger import Alert, Ledger, SkipAlarm, sinks
    from truestep.run import Shuffled
    from truestep.tasks import Splits, Task
    from truestep.timing.profile import Profile, profile
    from truestep.verification.result import Verification
    from truestep.verification.verify import verify

_HOMES = {
    "": ("audit", "errors"),
    "checkpoint": ("Checkpoint", "Checkpoints", "Restored", "read_checkpoint", "restore"),
    "engine.attempt": ("Attempt",),
    "engine.clip": ("ClipNorm", "ClipValue"),
    "engine.clock": ("Every",),
    "engine.counts": ("Counts",),
    "engine.ema": ("Ema",),
    "engine.outcome": ("Outcome", "Reason", "Skip"),
    "engine.policy": ("Policy",),
    "engine.scale": ("LossScale",),
    "engine.update": ("Update",),
    "engine.windows": ("Window", "windows"),
    "footprint": ("Footprint", "Formula", "memory"),
    "inspection.inspect": ("inspect",),
    "inspection.result": ("Inspection",),
    "ledger": ("Alert", "Ledger", "SkipAlarm", "sinks"),
    "run": ("Shuffled",),
    "tasks": ("Splits", "Task"),
    "timing.profile": ("Profile", "profile"),
    "verification.result": ("Verification",),
    "verification.verify": ("verify",),
}
"""Where each public name lives. It is imported when it is first asked for: `--help` and a run of pytest do not wait for torch."""

__all__ = [
    "Alert",
    "Attempt",
    "Checkpoint",
    "Checkpoints",
    "ClipNorm",
    "ClipValue",
    "Counts",
    "Ema",
    "Every",
    "Footprint",
    "Formula",
    "Inspection",
    "Ledger",
    "LossScale",
    "Outcome",
    "Policy",
    "Profile",
    "Reason",
    "Restored",
    "Shuffled",
    "Skip",
    "SkipAlarm",
    "Splits",
    "Task",
    "Update",
    "Verification",
    "Window",
    "audit",
    "errors",
    "inspect",
    "memory",
    "profile",
    "read_checkpoint",
    "restore",
    "sinks",
    "verify",
    "windows",
]


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'truestep' has no attribute {name!r}")
    if not home:
        return importlib.import_module(f"truestep.{name}")
    globals()[name] = value = getattr(importlib.import_module(f"truestep.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
