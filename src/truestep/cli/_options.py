"""Options that several commands share: what they write, as the library takes it, and what is wrong with it in their words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from truestep.disk import atomic
from truestep.errors import FileError, UsageError

if TYPE_CHECKING:
    from truestep.engine.scale import LossScale


def loss_scale(written: str | None) -> LossScale | None:
    """--scale: dynamic, dynamic:INIT, static:VALUE or none; None, the policy's own, where it was left out.

    Raises:
        UsageError: the words say nothing.

    >>> loss_scale("static:1024").value
    1024.0
    """
    from truestep.compare.candidate import Candidate  # noqa: PLC0415  # --help must not wait for torch
    from truestep.compare.settings import scale_of  # noqa: PLC0415 - --help does not wait for it
    from truestep.errors import ProtocolError  # noqa: PLC0415 - --help does not wait for it

    if written is None:
        return None
    if len(written.split()) != 1:  # a second word would be another setting of a candidate
        raise UsageError(f"--scale {written!r} is not one word", hint="write dynamic, dynamic:INIT, static:VALUE or none")
    try:
        scale = Candidate.parse(f"fp16 scale={written}").scale  # the policy is judged where it is used
    except ProtocolError as error:
        hint = (error.hint or "").replace("scale=", "--scale ") + "; a VALUE is a number above 0"
        raise UsageError(f"--scale {written} says nothing", hint=hint) from None
    assert scale is not None
    return scale_of(scale)


def demand_writable(path: Path, *, hint: str = "name a file in a folder that exists") -> None:
    """FileError where no file can be written there: asked before the work that it is to hold."""
    try:
        atomic.prove_writable(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
