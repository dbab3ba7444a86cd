"""What is seen of a training loop: each call that an update is made of, and the numbers beside it, as plain values."""

from truestep.audit.events.attempts import Ranks, StepCalled, Stepped, Updated
from truestep.audit.events.clocks import Averaged, Rated, Rewritten, Ticked
from truestep.audit.events.event import Event
from truestep.audit.events.gradients import (
    Backward,
    Clipped,
    Cut,
    Edited,
    GradientRead,
    GradientTaken,
    PenaltyInScaledUnits,
    Reduced,
    Unscaled,
    Zeroed,
)
from truestep.audit.events.made import Autocast, LowParameters, OddGradients, OptimizerMade, ScalerMade, SchedulerMade
from truestep.audit.events.numbers import Healed, Lost, Overflowed, Poisoned, Unsafe, Vanished
from truestep.audit.events.states import Loaded, Raised, Restored, Saved, Unjudged
from truestep.audit.events.values import Damage, Divisor, Judged, Moved, Share

__all__ = [
    "Autocast",
    "Averaged",
    "Backward",
    "Clipped",
    "Cut",
    "Damage",
    "Divisor",
    "Edited",
    "Event",
    "GradientRead",
    "GradientTaken",
    "Healed",
    "Judged",
    "Loaded",
    "Lost",
    "LowParameters",
    "Moved",
    "OddGradients",
    "OptimizerMade",
    "Overflowed",
    "PenaltyInScaledUnits",
    "Poisoned",
    "Raised",
    "Ranks",
    "Rated",
    "Reduced",
    "Restored",
    "Rewritten",
    "Saved",
    "ScalerMade",
    "SchedulerMade",
    "Share",
    "StepCalled",
    "Stepped",
    "Ticked",
    "Unjudged",
    "Unsafe",
    "Unscaled",
    "Updated",
    "Vanished",
    "Zeroed",
]
