"""Tells a failure of a task's own code from a fault of truestep's, where both run: the task's is told with its line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from truestep.engine.policy import Policy
from truestep.errors import LossError, OptimizerError, PolicyError, RunError, TruestepError
from truestep.probe.owners import OWNERS
from truestep.tasks import Task
from truestep.tasks.place import file_of, line_of

_BACKWARD = str(Path("torch", "autograd"))
_NO_KERNEL = re.compile(r"not implemented for '(?P<type>\w+)'|could not create a primitive descriptor")
"""As torch, and oneDNN below it, say that an operation lacks a kernel for the format."""
_TORCHS = {torch.float16: "Half", torch.bfloat16: "BFloat16"}
"""Torch's names of the narrow formats."""


@contextmanager
def told_as_theirs(task: Task, policy: str | Policy, *, failed: str) -> Iterator[None]:
    """Inside runs code of ours that calls the task's; an exception that came out of the task's is a RunError with its line.

    One that came out of ours passes as it is, and so does what we refuse; of a loss that is none, the line is added. `failed`
    says in the hint when that was.

    >>> from truestep.tasks import Logistic
    >>> try:
    ...     with told_as_theirs(Logistic(), "fp32", failed="while it was read"):
    ...         {}["theirs"]
    ... except RunError as error:
    ...     print(error.summary.partition(": ")[2], "-", error.hint)
    KeyError: 'theirs' - the task's own code failed while it was read
    """
    try:
        yield
    except LossError as error:
        raise LossError(_at(task.loss, error.summary), hint=error.hint, **error.facts) from error
    except OptimizerError as error:
        raise OptimizerError(error.summary, hint=_without_quotes(error.hint), **error.facts) from error
    except TruestepError:
        raise
    except (Exception, SystemExit) as error:  # code that parses a command line ends in SystemExit
        place = place_in(error, task)
        if place is None:
            raise
        if lacks_kernel(error, Policy.named(policy)):
            raise _no_kernel(error, Policy.named(policy), place) from error
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise RunError(f"{place}: {words}", hint=f"the task's own code failed {failed}", path=file_of(task)) from error


def place_in(error: BaseException, task: Task) -> str | None:
    """`FILE:LINE in FUNCTION` of the task's code that `error` came out of; None where it came out of none.

    That of a backward, in which no line of the task's runs, is where its loss is defined.
    """
    files = {file_of(cls) for cls in type(task).__mro__ if cls not in Task.__mro__}
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename in files or OWNERS[frame.filename] == "user":
            return f"{frame.filename}:{frame.lineno} in {frame.name}"
    if any(_BACKWARD in frame.filename for frame in frames):
        return f"{line_of(task.loss)} (in the backward of the loss)"
    return None


def _at(where: object, words: str) -> str:
    """The words behind their line, unless they begin with it already."""
    place = line_of(where)
    return words if words.startswith(place) else f"{place}: {words}"


def lacks_kernel(error: BaseException, policy: Policy) -> bool:
    """Whether torch says that an operation has no kernel in the format that `policy` computes in, and no other format's.

    >>> said = NotImplementedError("not implemented for 'Half'")
    >>> [lacks_kernel(said, Policy.named(name)) for name in ("fp16", "bf16", "fp32")]
    [True, False, False]
    """
    said = _NO_KERNEL.search(str(error)) if policy.low and isinstance(error, RuntimeError) else None
    return said is not None and said["type"] in (None, _TORCHS[policy.compute])


def wider(policy: Policy) -> str:
    """What to do where a format's kernel is not there.

    >>> wider(Policy.named("fp16")), wider(Policy.named("bf16"))
    ('choose the policy bf16, whose kernels are there, or fp32', 'choose the policy fp32')
    """
    return "choose the policy " + ("bf16, whose kernels are there, or fp32" if policy.compute is torch.float16 else "fp32")


def _no_kernel(error: BaseException, policy: Policy, place: str) -> PolicyError:
    wanted = str(policy.compute).removeprefix("torch.")
    return PolicyError(
        f"{place}: an operation has no {wanted} kernel on this device",
        hint=wider(policy),
        policy=policy.name,
        torch_says=str(error).strip().splitlines()[0][:120],
    )


def _without_quotes(hint: str | None) -> str | None:
    """A hint about an Update's arguments, for whoever asks for a task by its name: "policy='fp32' or 'bf16'" is no option."""
    if hint is None:
        return None
    return re.sub(r"policy='(\w+)' or '(\w+)'", r"the policy \1 or \2", hint).replace("clip= out", "the clip out")
