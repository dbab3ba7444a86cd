"""Mixed-precision training whose every optimizer update can be trusted.

Mixed precision changes the arithmetic of training, so test the update. Start with `Update`, which makes effective
updates and returns an `Outcome` for each, and `Ledger`, which keeps them.
"""

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
from truestep.ledger import Alert, Ledger, SkipAlarm, sinks
from truestep.run import Shuffled
from truestep.tasks import Splits, Task

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
    "Ledger",
    "LossScale",
    "Outcome",
    "Policy",
    "Reason",
    "Restored",
    "Shuffled",
    "Skip",
    "SkipAlarm",
    "Splits",
    "Task",
    "Update",
    "Window",
    "audit",
    "errors",
    "read_checkpoint",
    "restore",
    "sinks",
    "windows",
]
