"""What stands first: what was inspected, how, the advice with its reasons; and last, what is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.pages.words import counted, listing

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Title and first sentence."""

    title: str
    lead: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """All advice about one layer."""

    layer: str
    said: tuple[tuple[str, str, str], ...]
    """Advice, reason, action."""


def headline(record: Record) -> Headline:
    """The task, the policy and the attempts, in words."""
    attempts = record["attempts"]
    skipped = sum(not each["completed"] for each in attempts)
    scales = dict.fromkeys(f"{each['scale']:,g}" for each in attempts)
    after = listing([f"{each['after']:,}" for each in attempts])
    lead = [
        f"On {record['device']}, {counted(len(attempts), 'attempt')} inspected, after {after} others.",
        f"Loss scale {listing(list(scales))}.",
    ]
    if skipped:
        lead.append(f"Skipped: {skipped} of {len(attempts)}, for {listing(_reasons(attempts))}.")
    lead.append(f"{counted(record['microbatches'], 'microbatch')} in a window.")
    if record["seed"] is not None:
        lead.append(f"Seed {record['seed']}.")
    return Headline(title=f"{record['task'] or 'An update'} in {record['policy']}", lead=" ".join(lead))


def advice(record: Record) -> tuple[Entry, ...]:
    """By layer, the whole model first, in the record's order."""
    said: dict[str | None, list[tuple[str, str, str]]] = {}
    for each in record["advice"]:
        said.setdefault(each["layer"], []).append((each["text"], each["reason"], each["action"]))
    names = sorted(said, key=lambda layer: layer is not None)  # stable: the record's order but for the model
    return tuple(
        Entry(layer="the whole model" if name is None else name or "the model itself", said=tuple(said[name])) for name in names
    )


def assumed(record: Record) -> tuple[str, ...]:
    """The record's notes, and how the page counts."""
    return (
        *record["notes"],
        "Shares lost are of the numbers that are finite and not zero; the bars are in percent of all values.",
        "Becomes zero: at most half the format's smallest number. Subnormal: below the smallest normal one, with fewer bits. "
        "Overflows: rounds beyond the largest number.",
    )


def _reasons(attempts: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(each["reason"] or "no reason given" for each in attempts if not each["completed"]))
