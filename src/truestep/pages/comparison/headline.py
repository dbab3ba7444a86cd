"""What a reader meets first: what was compared, and the verdict on each candidate in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.comparison.reading import Comparison
from truestep.pages.comparison.shortfall import shortfall
from truestep.pages.look.candidates import Look
from truestep.pages.words import count, counted, listing, seconds


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The page's title and the sentence below it."""

    title: str
    lead: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One candidate's verdict: the first thing to know, then the rest."""

    candidate: str
    look: Look
    tags: tuple[str, ...]
    text: str
    sentences: tuple[str, ...]


def headline(comparison: Comparison) -> Headline:
    """Task, target, candidates, seeds and machine, as the protocol declares them."""
    protocol = comparison.protocol
    rivals = [one["candidate"] for one in comparison.summary["candidates"] if not (one["baseline"] or one["again"])]
    better = "at least" if protocol["direction"] == "higher" else "at most"
    raced = f"{listing(rivals)} against {comparison.baseline}" if rivals else f"{comparison.baseline} alone"
    return Headline(
        title=f"{protocol['task']}: {raced}",
        lead=f"The race to {protocol['quality']} of {better} {protocol['target']:g} on the validation split, "
        f"over {counted(len(protocol['seeds']), 'seed')}, on {protocol['device']}. "
        f"{len(comparison.records)} of {comparison.summary['planned']} runs have a record.",
    )


def verdicts(comparison: Comparison) -> tuple[Verdict, ...]:
    """The verdict on each candidate but the baseline, in the summary's words; its parts become sentences."""
    found = []
    for one in comparison.summary["candidates"]:
        if one["against"] is None:
            continue
        said = (f"{part[:1].upper()}{part[1:]}." for part in one["against"]["text"].split("; "))
        how = (*said, *_unsure(comparison, one))
        first, *rest = (*missed(one), *how) if not one["reached"] else (*how, *missed(one))
        found.append(
            Verdict(
                candidate=one["candidate"],
                look=comparison.drawn[one["candidate"]],
                tags=tags(one),
                text=first,
                sentences=(*rest, *shortfall(comparison, one)),
            )
        )
    return tuple(found)


def _unsure(comparison: Comparison, one: Mapping[str, Any]) -> tuple[str, ...]:
    """Beside a verdict on seconds, that the machine was contended: it would be read without the limits further down."""
    contended = any(note["kind"] == "contended" for note in comparison.summary["notes"])
    claimed = one["against"]["time"] in ("faster", "slower")
    return ("The machine was contended, so the seconds are unsure.",) if contended and claimed else ()


def missed(one: Mapping[str, Any]) -> tuple[str, ...]:
    """How the runs ended that did not reach the target, and what each is charged; nothing where all did.

    >>> estimates = {"seconds": {"tau": 4.4, "ert": None}}
    >>> standing = {"runs": 2, "reached": 0, "statuses": {"crashed": 2}, "emulated": False, "estimates": estimates}
    >>> [" ".join(sentence.split()) for sentence in missed(standing)]
    ['Never reached the target: 2 crashed.', 'Each is charged 4.40 s; with restarts it would never be there.']
    """
    lost = one["runs"] - one["reached"]
    if not lost:
        return ()
    ends = listing([f"{runs} {ENDED.get(status, status)}" for status, runs in one["statuses"].items() if status != "reached"])
    which = f"{lost} of {counted(one['runs'], 'run')} did not reach the target" if one["reached"] else "Never reached the target"
    estimate = one["estimates"]["examples" if one["emulated"] else "seconds"]
    if estimate is None:
        return (f"{which}: {ends}.",)
    words = (lambda value: f"{count(round(value))} examples") if one["emulated"] else seconds
    budget = ", the whole budget" if one["emulated"] else ""
    restarts = "it would never be there" if estimate["ert"] is None else f"one is there after {words(estimate['ert'])}"
    return (f"{which}: {ends}.", f"Each is charged {words(estimate['tau'])}{budget}; with restarts {restarts}.")


ENDED = {"budget": "out of budget", "error": "ended by an error"}
"""A status in words, where it does not say itself how a run ended."""


def conditions(comparison: Comparison) -> tuple[str, ...]:
    """What became of each condition that `--fail-if` declared, candidate by candidate."""
    said = {True: "holds", False: "does not hold", None: "cannot be told"}
    return tuple(
        f"{one['condition']} {said[one['holds']]} for {one['candidate']}: {one['text']}"
        for one in comparison.summary["conditions"]
    )


def tags(one: dict[str, Any]) -> tuple[str, ...]:
    """What a candidate's name has to be read with."""
    said = {
        "baseline": one["baseline"],
        "the baseline again": one["again"],
        "demonstration fault": one["demonstrates"] is not None,
        "control": one["control"],
        "emulated": one["emulated"],
    }
    return tuple(word for word, holds in said.items() if holds)
