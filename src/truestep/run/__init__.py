"""One run of a task."""

from truestep.run.building import initial_digest
from truestep.run.record import Evaluation, RunRecord, Status, ToTarget
from truestep.run.settings import Plan, Settings, plan_of
from truestep.run.state import Progress
from truestep.run.train import train

__all__ = ["Evaluation", "Plan", "Progress", "RunRecord", "Settings", "Status", "ToTarget", "initial_digest", "plan_of", "train"]
