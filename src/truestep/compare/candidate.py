"""What is compared: a policy with the settings that depart from the protocol's, written on one line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from truestep.errors import ProtocolError
from truestep.run.faults import FAULTS, NONE, Fault
from truestep.run.options import Options, Value

AGAIN = "again"
"""The word after a candidate that runs a second time, to show how far two equal candidates lie apart."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy, and what it sets differently from the protocol; None where the protocol's setting holds.

    >>> Candidate.parse("fp16 accumulate=8 scale=static:1024")
    Candidate(policy='fp16', scale='static:1024', accumulate=8, clip=None, clock=None, underflow=None, fault=None, \
optimizer=(), again=False)
    >>> str(Candidate.parse("fp16 optimizer.betas=0.9,0.95 accumulate=8 lr=1e-2 scale=static:1024.0"))
    'fp16 scale=static:1024 accumulate=8 optimizer.betas=0.9,0.95 lr=0.01'
    """

    policy: str
    scale: str | None = None
    """"dynamic", "dynamic:INIT", "static:VALUE" or "none"; None is the policy's own."""
    accumulate: int | None = None
    """Microbatches of a window; the examples of an effective update stay the protocol's."""
    clip: float | None = None
    """The largest gradient norm, in original units."""
    clock: str | None = None
    """"completed", "attempt", "epoch", "examples:N" or "tokens:N": what a tick of the schedule means."""
    underflow: str | None = None
    """"allowed": float16 without a loss scale is meant, to show what it costs."""
    fault: str | None = None
    """A demonstration: a hand-written loop with this mistake, in place of the engine."""
    optimizer: Options = ()
    """Options that every parameter group gets in place of the task's, by name."""
    again: bool = False
    """Whether this is the same candidate a second time."""

    @staticmethod
    def parse(text: str) -> Candidate:
        """The candidate that `text` writes: `POLICY [scale=...] [accumulate=N] [clip=X] [clock=...] [underflow=allowed]
        [lr=X] [weight_decay=X] [optimizer.NAME=VALUE] [fault=NAME] [again]`.

        Raises:
            ProtocolError: no policy, a key or word that is unknown or stands twice, or a value that its key cannot
                take; each is named.
        """
        policy, *words = text.split() or [""]
        if not re.fullmatch(r"[A-Za-z0-9-]+", policy):
            raise _refused(text, "a candidate begins with a policy", hint="for example: fp16 scale=static:1024")
        given: dict[str, Any] = {}
        options: dict[str, Value] = {}
        parsed: Any
        for word in words:
            key, equals, value = word.partition("=")
            if word == AGAIN:
                key, parsed = AGAIN, True
            elif equals and (option := _option(key)) is not None:
                key, parsed = _written_option(option), _option_value(text, key, value)
                options[option] = parsed
            elif equals and key in _KEYS:
                parsed = _value(text, key, value)
            else:
                hint = f"keys: {', '.join(_KEYS)}, {', '.join(_BARE)}, {_PREFIX}NAME; or: {AGAIN}"
                raise _refused(text, f"{key!r} is no key of a candidate", hint=hint)
            if key in given:
                raise _refused(text, f"{key!r} stands twice", hint="keep one of them")
            given[key] = parsed
        if "underflow" in given and given.get("scale") != "none":
            raise _refused(text, "underflow=allowed says nothing beside a loss scale", hint="leave it out, or write scale=none")
        return Candidate(
            policy=policy,
            optimizer=tuple(sorted(options.items())),
            **{key: value for key, value in given.items() if _option(key) is None},
        )

    def __str__(self) -> str:
        """The candidate on one line, keys in a fixed order: equal candidates write alike."""
        words = [self.policy]
        words += [f"{key}={_written(value)}" for key in _KEYS if (value := getattr(self, key)) is not None and key != "fault"]
        words += [f"{_written_option(name)}={_written(value)}" for name, value in self.optimizer]
        words += [] if self.fault is None else [f"fault={self.fault}"]
        return " ".join([*words, AGAIN] if self.again else words)

    @property
    def slug(self) -> str:
        """The candidate as part of a file's name.

        >>> Candidate.parse("fp16 scale=static:1024").slug
        'fp16-scale-static-1024'
        """
        return re.sub(r"[^A-Za-z0-9.]+", "-", str(self))

    @property
    def demonstrates(self) -> Fault | None:
        """The mistake that it shows; None for a candidate that runs through the engine, and for the control, which makes none."""
        return None if self.fault in (None, NONE) else FAULTS[self.fault]


def _value(text: str, key: str, value: str) -> Any:
    form, parse = _KEYS[key]
    try:
        return parse(value)
    except ValueError:  # which number or word it is stands in the message already
        raise _refused(text, f"{key}={value} says nothing", hint=f"write {key}={form}", key=key) from None


def _scale(value: str) -> str:
    kind, colon, number = value.partition(":")
    if kind in ("none", "dynamic") and not colon:
        return kind
    if kind in ("static", "dynamic"):
        return f"{kind}:{_written(_positive(number))}"
    raise ValueError(value)


def _clock(value: str) -> str:
    kind, colon, number = value.partition(":")
    if kind in ("completed", "attempt", "epoch") and not colon:
        return kind
    if kind in ("examples", "tokens"):
        return f"{kind}:{_count(number)}"
    raise ValueError(value)


def _allowed(value: str) -> str:
    if value != "allowed":
        raise ValueError(value)
    return value


def _fault(value: str) -> str:
    if value not in FAULTS:
        raise ValueError(value)
    return value


def _option(key: str) -> str | None:
    """The optimizer's option that `key` writes; None where it writes another key."""
    if key in _BARE:
        return key
    name = key.removeprefix(_PREFIX)
    return name if name != key and name.isidentifier() and name.isascii() else None


def _written_option(name: str) -> str:
    return name if name in _BARE else f"{_PREFIX}{name}"


def _option_value(text: str, key: str, value: str) -> Value:
    if value in ("true", "false"):
        return value == "true"
    try:
        numbers = tuple(map(float, value.split(",")))
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        form = "a finite number; or true, false, or numbers parted by commas"
        raise _refused(text, f"{key}={value} says nothing", hint=f"write {key}={form}", key=key)
    return numbers if len(numbers) > 1 else numbers[0]


def _count(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(value)
    return number


def _positive(value: str) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(value)
    return number


def _written(value: object) -> str:
    """A number without a needless `.0`, several parted by commas, a switch in lower case; anything else as it is."""
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _refused(text: str, why: str, *, hint: str, **facts: Any) -> ProtocolError:
    return ProtocolError(f"candidate {text!r}: {why}", hint=hint, candidate=text, **facts)


_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "scale": ("dynamic, dynamic:INIT, static:VALUE or none", _scale),
    "accumulate": ("N, microbatches of a window, 1 or more", _count),
    "clip": ("X, a norm above 0", _positive),
    "clock": ("completed, attempt, epoch, examples:N or tokens:N", _clock),
    "underflow": ("allowed, beside scale=none", _allowed),
    "fault": (" or ".join(FAULTS), _fault),
}
_BARE = ("lr", "weight_decay")
"""Options of an optimizer that are written without `optimizer.`."""
_PREFIX = "optimizer."
