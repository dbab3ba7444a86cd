"""What is trained."""

from truestep.tasks.bytes_lm import BytesLM
from truestep.tasks.digits import Digits
from truestep.tasks.digits_conv import DigitsConv
from truestep.tasks.loading import NAMES, load
from truestep.tasks.logistic import Logistic
from truestep.tasks.task import Splits, Task

__all__ = ["NAMES", "BytesLM", "Digits", "DigitsConv", "Logistic", "Splits", "Task", "load"]
