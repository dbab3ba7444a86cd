"""The protocol of a comparison: everything that is declared before the first run, and its hash."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from truestep.compare.candidate import Candidate
from truestep.disk.canonical import canonical, digest
from truestep.errors import ProtocolError, RecordError

SCHEMA = 1
"""Moves when a field's meaning moves; a reader refuses every other number."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a comparison fixes before it starts. Two protocols are the same exactly when their hashes are.

    A field stands before those that follow from it: the first difference of two protocols is then what was asked for.

    Raises ProtocolError on construction for a comparison that cannot be declared.
    """

    task: str
    """The task as it was asked for: a name, or FILE.py:NAME."""
    code_digest: str
    """SHA-256 over the task's source files: its own, and those that it imports from the same folder."""
    data_digest: str
    """SHA-256 over the data of all splits."""
    model: str
    """The model and its initialisation, in words."""
    seeds: tuple[int, ...]
    initial_weights: Mapping[str, str]
    """Seed -> SHA-256 of the weights that every candidate starts from."""
    optimizer: str
    """The optimizer and its settings, where a candidate does not declare otherwise."""
    budget_attempts: int
    schedule: str
    """The learning-rate schedule, the same for all candidates."""
    clock: str
    """What a tick of the schedule means."""
    batch: int
    """Examples of an effective update."""
    microbatches: int
    """Microbatches of a window, where a candidate does not say otherwise."""
    splits: Mapping[str, int]
    """Split -> its number of examples."""
    quality: str
    """The validation number that is raced to."""
    direction: Literal["higher", "lower"]
    """Which quality is better."""
    pilot: Mapping[str, Any] | None = None
    """The runs that the target was set by, as `truestep.compare.pilot` found them; None: the task or the user declared it."""
    target: float | None
    """None: a pilot's own, all of whose runs go on to the end of their budget."""
    target_from: str
    """Where the target came from, in words."""
    evaluate_every: int
    """Examples seen between two evaluations, the same for all candidates."""
    evaluation: str
    """The precision and split of an evaluation, the same for all candidates."""
    budget_seconds: float | None
    """Of the primary clock; None: attempts alone bound a run, and the longest run bounds the times."""
    stop_at_target: bool
    """Whether a run ends at the target; otherwise it goes on to the end of its budget."""
    max_consecutive_skips: int
    """Skipped attempts in a row after which a run has stalled."""
    candidates: tuple[str, ...]
    """The baseline first."""
    order: str
    """How the runs follow each other."""
    warmup_attempts: int
    """Attempts of each candidate's discarded warm-up."""
    threads: int
    retries: str
    """What follows a run that failed."""
    primary_clock: str
    """The seconds that a time to target is made of."""
    margin_examples: float
    """The share of additional examples to the target that still counts as none."""
    margin_quality: float | None
    """The loss of final quality that still counts as none, in the quality's own unit; None for a pilot, which judges nothing."""
    alpha: float
    """The chance of any false claim over all candidates."""
    device: str
    versions: Mapping[str, str]
    """Of python, torch and truestep."""
    jobs: int = 1
    """Runs at once, each in a process of its own; more than 1 contend for the machine."""
    timeout_seconds: float | None = None
    """Wall time after which a run is ended; None: never."""
    startup_timeout_seconds: float | None = None
    """Wall time that its process's startup and warm-up have together before that; None: all."""

    fail_if: tuple[str, ...] = ()
    """Conditions that make the comparison fail, each in its one writing."""

    def __post_init__(self) -> None:
        """Validate once; what is refused is named."""
        _demand_candidates(self.candidates)
        _demand_seeds(self.seeds)
        if self.target is None:
            assert not self.stop_at_target, "a race has a target"
        elif self.margin_quality is None:
            raise ProtocolError("margin_quality is not declared", hint=_set("margin_quality"), field="margin_quality")
        elif not math.isfinite(self.target):
            raise ProtocolError("the target is no number", hint="declare one with --target", target=self.target)
        for name in ("batch", "microbatches", "evaluate_every", "budget_attempts", "threads", "max_consecutive_skips", "jobs"):
            if (value := getattr(self, name)) < 1:
                raise ProtocolError(f"{name} has to be 1 or more, and is {value}", hint=_set(name), field=name, value=value)
        for name in ("margin_examples", "margin_quality", "budget_seconds", "timeout_seconds", "startup_timeout_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                summary = f"{name} has to be finite and above 0, and is {value}"
                raise ProtocolError(summary, hint=_set(name), field=name, value=value)
        if self.warmup_attempts < 0:
            hint = "0 runs without a warm-up"
            raise ProtocolError("a warm-up has 0 attempts or more", hint=hint, warmup_attempts=self.warmup_attempts)
        if not 0 < self.alpha < 1:
            raise ProtocolError("alpha lies between 0 and 1", hint="0.05 is usual", alpha=self.alpha)
        for text in self.candidates:
            microbatches = Candidate.parse(text).accumulate or self.microbatches
            if microbatches > self.batch:
                raise ProtocolError(
                    f"candidate {text!r}: a window has no more microbatches than examples",
                    hint=f"write accumulate=N with an N of at most {self.batch}",
                    batch=self.batch,
                    microbatches=microbatches,
                )

    @property
    def baseline(self) -> str:
        """The candidate that the others are held against: the first."""
        return self.candidates[0]

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal."""
        return digest(self.as_dict())

    def canonical(self) -> bytes:
        """The protocol as ASCII JSON with sorted keys and no spaces: the bytes of protocol.json."""
        return canonical(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Every field as a JSON value, and the schema's number."""
        return {"schema": SCHEMA} | {field.name: _plain(field.name, getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Protocol:
        """The protocol that `as_dict` was called on.

        Raises:
            RecordError: another schema, fields that are missing or unknown (they are named), or values that no protocol has.
        """
        values = dict(record)
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise RecordError(f"a protocol of schema {schema}", hint=f"this truestep reads schema {SCHEMA}", schema=schema)
        names = {field.name for field in fields(Protocol)}
        if odd := sorted(names ^ values.keys()):
            hint = "it is of another version of truestep, or no protocol; give another --out"
            raise RecordError(f"a protocol with fields missing or unknown: {', '.join(odd)}", hint=hint, fields=", ".join(odd))
        try:
            candidates = tuple(str(Candidate.parse(text)) for text in values["candidates"])
            return Protocol(
                **values | {"candidates": candidates, "seeds": tuple(values["seeds"]), "fail_if": tuple(values["fail_if"])}
            )
        except (AttributeError, TypeError, ValueError, ProtocolError) as error:  # JSON can hold anything in any place
            why = error.summary if isinstance(error, ProtocolError) else error
            hint = "restore the file, or give another --out"
            raise RecordError(f"a protocol with a value that none has: {why}", hint=hint) from error


def first_difference(left: Protocol, right: Protocol) -> tuple[str, Any, Any] | None:
    """The first field in the order of declaration that differs, with both values; None for equal protocols."""
    ours, theirs = left.as_dict(), right.as_dict()
    return next(((name, ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]), None)


_FLOATS = ("target", "budget_seconds", "margin_examples", "margin_quality", "alpha", "timeout_seconds", "startup_timeout_seconds")


def _set(name: str) -> str:
    """What to do about a number: an option sets it, or else the task."""
    if name in ("timeout_seconds", "startup_timeout_seconds"):
        return "set it with --timeout"
    options = ("evaluate_every", "budget_attempts", "threads", "jobs", "margin_examples", "margin_quality", "budget_seconds")
    return f"set it with --{name.replace('_', '-')}" if name in options else f"mend the task's {name}"


def _plain(name: str, value: Any) -> Any:
    """`value` as JSON holds it, 1 and 1.0 written alike where a field is a float."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    return float(value) if name in _FLOATS and value is not None else value


def _demand_candidates(candidates: tuple[str, ...]) -> None:
    """At least one, each in its canonical writing, no two alike, and `again` only of the baseline."""
    if not candidates:
        raise ProtocolError("no candidates", hint="name at least the baseline, for example: --candidates fp32 bf16")
    parsed = [Candidate.parse(text) for text in candidates]
    slugs = [candidate.slug for candidate in parsed]
    if parsed[0].demonstrates is not None:
        hint = "name the loop that makes no mistake first: the damage is what it is held against"
        raise ProtocolError(f"the baseline {candidates[0]!r} is wrong on purpose", hint=hint, candidate=candidates[0])
    for index, (text, candidate) in enumerate(zip(candidates, parsed, strict=True)):
        assert text == str(candidate), "candidates enter a protocol in canonical writing"
        if slugs.index(slugs[index]) != index:
            raise ProtocolError(
                f"candidate {text!r} stands twice",
                hint=f"keep one of them; the noise between equal runs is measured by {parsed[0]!s} again",
                candidate=text,
            )
        if candidate.again and text != f"{candidates[0]} again":
            hint = f"write {candidates[0]!r} first and '{candidates[0]} again' after it"
            raise ProtocolError(f"candidate {text!r}: only the baseline runs again", hint=hint, candidate=text)


def _demand_seeds(seeds: tuple[int, ...]) -> None:
    if not seeds:
        raise ProtocolError("no seeds", hint="ask for at least one; a claim takes 6 or more")
    if len(set(seeds)) != len(seeds) or min(seeds) < 0:
        hint = "name each seed once"
        raise ProtocolError("seeds are different numbers, 0 or more", hint=hint, seeds=" ".join(map(str, seeds)))
