"""What a reader meets first: what was compared, and the verdict on each candidate in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from truestep.pages.comparison.reading import Comparison
from truestep.pages.look.candidates import Look
from truestep.pages.words import counted, listing


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
        first, *rest = (part[:1].upper() + part[1:] for part in one["against"]["text"].split("; "))
        found.append(
            Verdict(
                candidate=one["candidate"],
                look=comparison.drawn[one["candidate"]],
                tags=tags(one),
                text=f"{first}.",
                sentences=tuple(f"{part}." for part in rest),
            )
        )
    return tuple(found)


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
        "emulated": one["emulated"],
    }
    return tuple(word for word, holds in said.items() if holds)
