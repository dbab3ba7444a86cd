"""Every run in words, failed ones included, with the command that reproduces it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.comparison.clocks import EXAMPLES, SECONDS, Record
from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.candidates import Look
from truestep.pages.words import count, listing, mebibytes, seconds, significant


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run as the page lists it."""

    candidate: str
    look: Look
    seed: int
    emulated: bool
    reached: bool
    status: str
    detail: str | None
    hint: str | None
    numbers: str
    earlier: tuple[str, ...]
    """Tries of the same run that failed before, in words; their seconds are in its waste."""
    command: str


def runs(comparison: Comparison) -> tuple[Run, ...]:
    """The runs in the order in which they ended."""
    failures = {(one["candidate"], each["seed"]): each for one in comparison.summary["candidates"] for each in one["failures"]}
    return tuple(
        Run(
            candidate=record["candidate"],
            look=comparison.drawn[record["candidate"]],
            seed=record["seed"],
            emulated=record["emulated"],
            reached=record["to_target"] is not None,
            status=status(record),
            detail=record["detail"] or None,
            hint=record["hint"],
            numbers=numbers(record, failures.get((record["candidate"], record["seed"])), quality=comparison.protocol["quality"]),
            earlier=earlier(record),
            command=command(comparison.protocol, record),
        )
        for record in comparison.records
    )


def status(record: Record) -> str:
    """How the run ended, in a sentence.

    >>> words = status({"status": "diverged", "to_target": None, "clocks": {"train": 4.0, "waste": 0.0},
    ...                 "counts": {"examples_seen": 6400}})
    >>> " ".join(words.split())  # its spaces before units do not break
    'Diverged after 4.00 s and 6,400 examples, before it reached the target.'
    """
    time, examples = SECONDS.reached(record), EXAMPLES.reached(record)
    if time is not None and examples is not None:
        return f"Reached the target after {seconds(time)} and {EXAMPLES.words(examples)} examples."
    words = {"budget": "Budget spent", "error": "Ended by an error"}
    ended = words.get(record["status"], str(record["status"]).capitalize())
    spent = f"{seconds(SECONDS.spent(record))} and {EXAMPLES.words(EXAMPLES.spent(record))} examples"
    return f"{ended} after {spent}, before it reached the target."


def numbers(record: Record, failure: Mapping[str, Any] | None, *, quality: str) -> str:
    """Counts and final quality, on one line; the best on validation too where the target was not reached.

    `failure` is what the summary says of a run that did not reach it; None for one that did.
    """
    counts = record["counts"]
    skipped = sum(counts["skipped_by_reason"].values())
    reasons = ", ".join(f"{count(skips)} {reason}" for reason, skips in counts["skipped_by_reason"].items())
    tested = record["test_quality"]
    final = "not measured" if tested is None else significant(float(tested), 4)
    return (
        f"{count(counts['attempts'])} attempts: {count(counts['completed'])} completed, {count(skipped)} skipped"
        f"{f' ({reasons})' if reasons else ''}. Final {quality}, test split: {final}. "
        f"{_best(failure, quality)}"
        f"{seconds(record['total_seconds'])} in all. {_weights(record['weights_digest'])}{_process(record)}"
    )


def _process(record: Record) -> str:
    """The most memory that the run's process held, and the device for it; how it ended where it did not end by itself."""
    process = record.get("process") or {}
    words = []
    if process.get("peak_memory_bytes"):
        on_device = process.get("peak_device_bytes")
        beside = f", and {mebibytes(on_device)} on the device" if on_device else ""
        words.append(f" Peak memory: {mebibytes(process['peak_memory_bytes'])}{beside}.")
    if process.get("signal"):
        words.append(f" Its process was ended by {process['signal']}.")
    return "".join(words)


def earlier(record: Record) -> tuple[str, ...]:
    """The failed tries that came before the run, each in words.

    >>> said = earlier({"process": {"earlier": [{"status": "crashed", "detail": "by SIGSEGV", "total_seconds": 2.0}]}})
    >>> [" ".join(words.split()) for words in said]
    ['crashed after 2.00 s, which are waste: by SIGSEGV']
    """
    tries = (record.get("process") or {}).get("earlier", ())
    why = (f"{one['status']} after {seconds(one['total_seconds'])}, which are waste" for one in tries)
    return tuple(f"{words}: {one['detail']}" if one["detail"] else f"{words}." for words, one in zip(why, tries, strict=True))


def _best(failure: Mapping[str, Any] | None, quality: str) -> str:
    if failure is None or failure["best"] is None:
        return ""
    return f"Best {quality}, validation split: {significant(failure['best'], 4)}. "


def _weights(digest: str | None) -> str:
    return "No final weights." if digest is None else f"Final weights: SHA\N{NON-BREAKING HYPHEN}256 {digest[:12]}…"


def again(protocol: Mapping[str, Any]) -> str:
    """What every `command` does, and which options of this comparison it leaves out, since they made no run what it is."""
    jobs = protocol.get("jobs", 1)
    left_out = {
        f"--jobs {jobs} (one run at a time)": jobs > 1,
        "--fail-if (it fails by nothing)": bool(protocol.get("fail_if")),
        "--pilot (its target stands there as a number)": protocol.get("pilot") is not None,
    }
    said = listing([words for words, holds in left_out.items() if holds])
    return (
        "Run it again: the command under a run repeats it. Since seeds are counted from 0, it runs the candidate on each seed up "
        "to the run's own, and the last is the one meant. It sets everything that made the run."
    ) + (f" Left out: {said}." if said else "")


def command(protocol: Mapping[str, Any], record: Record) -> str:
    """The command that runs this candidate on this seed again, quoted for a POSIX shell.

    A comparison counts its seeds from 0, so this runs the seeds before it as well; the last run of the candidate is the
    one. The baseline's second run is the baseline's run, and a loop of one's own is no baseline, so that one runs beside it.
    Every option that makes the run is written, whatever its default is today; what is not, `again` says.
    """
    name = str(record["candidate"]).removesuffix(" again")
    baseline = str(protocol["candidates"][0])
    beside = [baseline] if " fault=" in name and name != baseline else []
    options: dict[str, object] = {
        "seeds": record["seed"] + 1,
        "target": protocol["target"],
        "budget-attempts": protocol["budget_attempts"],
        "budget-seconds": protocol["budget_seconds"],
        "evaluate-every": protocol["evaluate_every"],
        "margin-examples": protocol["margin_examples"],
        "margin-quality": protocol["margin_quality"],
        "alpha": protocol["alpha"],
        "threads": protocol["threads"],
        "timeout": protocol.get("timeout_seconds"),
        "out": f"{re.sub(r'[^A-Za-z0-9.]+', '-', name)}-seed{record['seed']}-again",
    }
    words = [word for key, value in options.items() if value is not None for word in (f"--{key}", str(value))]
    to_the_end = [] if protocol["stop_at_target"] else ["--to-the-end"]
    return shlex.join(["truestep", "compare", protocol["task"], "--candidates", *beside, name, *words, *to_the_end])
