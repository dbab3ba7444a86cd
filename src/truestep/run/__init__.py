"""One run of a task."""

from truestep.run.building import initial_digest
from truestep.run.progress import Progress
from truestep.run.record import Evaluation, RunRecord, Status, ToTarget
from truestep.run.saving import Saving
from truestep.run.settings import Plan, Settings, plan_of
from truestep.run.shuffled import Shuffled
from truestep.run.train import train

__all__ = [
    "Evaluation",
    "Plan",
    "Progress",
    "RunRecord",
    "Saving",
    "Settings",
    "Shuffled",
    "Status",
    "ToTarget",
    "initial_digest",
    "plan_of",
    "train",
]
