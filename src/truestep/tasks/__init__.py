"""What is trained."""

from truestep.tasks.digits import Digits
from truestep.tasks.loading import NAMES, load
from truestep.tasks.task import Splits, Task

__all__ = ["NAMES", "Digits", "Splits", "Task", "load"]
