"""From protocol and candidate to the settings of a run. Pure."""

from __future__ import annotations

from dataclasses import replace

from truestep.compare.candidate import Candidate
from truestep.compare.protocol import Protocol
from truestep.engine.clip import ClipNorm
from truestep.engine.clock import Every
from truestep.engine.scale import LossScale
from truestep.run import Settings


def settings_of(protocol: Protocol, candidate: str) -> Settings:
    """What a run of `candidate` does: the protocol's settings, and what the candidate sets differently."""
    asked = Candidate.parse(candidate)
    return Settings(
        candidate=candidate,
        policy=asked.policy,
        scale=None if asked.scale is None else scale_of(asked.scale),
        allow_underflow=asked.underflow is not None,
        clip=None if asked.clip is None else ClipNorm(asked.clip),
        clock=clock_of(asked.clock or protocol.clock),
        optimizer=asked.optimizer,
        fault=asked.fault,
        microbatches=asked.accumulate or protocol.microbatches,
        budget_attempts=protocol.budget_attempts,
        budget_seconds=protocol.budget_seconds,
        evaluate_every=protocol.evaluate_every,
        target=protocol.target,
        races=protocol.target is not None,
        stop_at_target=protocol.stop_at_target,
        max_consecutive_skips=protocol.max_consecutive_skips,
        threads=protocol.threads,
    )


def warmup_of(protocol: Protocol, candidate: str) -> Settings:
    """What the warm-up of `candidate` does: the protocol's few attempts, an evaluation after each."""
    return replace(
        settings_of(protocol, candidate),
        budget_attempts=protocol.warmup_attempts,
        evaluate_every=protocol.batch,
        stop_at_target=False,
    )


def scale_of(text: str) -> LossScale:
    """The loss scale that a candidate writes.

    >>> scale_of("static:1024").value, scale_of("dynamic").value, scale_of("none").kind
    (1024.0, 65536.0, 'none')
    """
    kind, _, number = text.partition(":")
    if kind == "none":
        return LossScale.none()
    if kind == "static":
        return LossScale.static(float(number))
    return LossScale.dynamic(float(number)) if number else LossScale.dynamic()


def clock_of(text: str) -> str | Every:
    """The clock that a candidate or a protocol writes.

    >>> clock_of("examples:100"), clock_of("epoch")
    (Every(examples=100, tokens=None), 'epoch')
    """
    unit, _, number = text.partition(":")
    return Every(**{unit: int(number)}) if number else text
