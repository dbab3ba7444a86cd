"""From the options of `truestep train` to the settings of a run; what an option cannot be is told in the option's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from truestep.errors import ProtocolError, UsageError

if TYPE_CHECKING:
    from truestep.compare.candidate import Candidate
    from truestep.run import Settings

_MOST_THREADS = 4096
"""More than any machine has cores; torch and the system take no number that is far beyond it."""
_AS_THEY_ARE = (
    *("budget_attempts", "budget_seconds", "evaluate_every", "target", "stop_at_target"),
    *("on_oom", "threads", "device", "time_stages"),
)
"""Options that are settings of the same name."""


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The settings that `options` ask for; their defaults are filled in.

    Raises:
        UsageError: an option is nothing that it can be.
        ProtocolError: there is no such policy, or none with such a scale.
    """
    from truestep.compare.settings import clock_of, scale_of  # noqa: PLC0415 - --help does not wait for it
    from truestep.engine.clip import ClipNorm  # noqa: PLC0415 - --help does not wait for it
    from truestep.run import Settings  # noqa: PLC0415 - --help does not wait for it

    threads = options["threads"]
    if not 1 <= threads <= _MOST_THREADS:
        raise UsageError(f"--threads {threads} cannot be had", hint=f"write --threads N, from 1 to {_MOST_THREADS}")
    candidate = _candidate(options)
    return Settings(
        policy=candidate.policy,
        candidate=str(candidate),
        scale=None if candidate.scale is None else scale_of(candidate.scale),
        allow_underflow=candidate.scale == "none",
        clip=None if candidate.clip is None else ClipNorm(candidate.clip),
        clock=clock_of(candidate.clock or "completed"),
        microbatches=candidate.accumulate,
        **{name: options[name] for name in _AS_THEY_ARE},
    )


def _candidate(options: Mapping[str, Any]) -> Candidate:
    """Policy, scale, accumulate, clip and clock, as a comparison would write them."""
    from truestep.compare.candidate import Candidate  # noqa: PLC0415 - --help does not wait for it

    for option in ("policy", "scale", "clock"):
        value = options[option]
        if value is not None and [value] != value.split():
            raise UsageError(f"--{option} {value!r} is not one word", hint="truestep train --help tells what it may be")
    words = {key: options[key] for key in ("scale", "accumulate", "clip", "clock")}
    written = [f"{key}={value}" for key, value in words.items() if value is not None and (key, value) != ("clock", "completed")]
    try:
        return Candidate.parse(" ".join([options["policy"], *written]))
    except ProtocolError as error:
        key = error.facts.get("key")
        if key is None:  # the policy's own
            raise
        hint = (error.hint or "").replace(f"{key}=", f"--{key} ")
        raise UsageError(f"--{key} {words[key]} says nothing", hint=hint) from None
