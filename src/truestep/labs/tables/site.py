"""The record of the site: every lab with what its run showed and what it asks, and the tables of the interactive pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch

from truestep.labs.asking.values import plain
from truestep.labs.lab import TOPICS, Lab
from truestep.labs.lessons import LESSONS
from truestep.labs.shown import Check, Shown
from truestep.labs.tables.asked import asked
from truestep.labs.tables.clip_and_unscale import clip_and_unscale
from truestep.labs.tables.number_line import number_line
from truestep.labs.tables.one_update import one_update
from truestep.labs.tables.scale_walk import scale_walk
from truestep.labs.tables.token_means import token_means
from truestep.run.isolation import own_threads


def site(labs: Iterable[Lab]) -> dict[str, Any]:
    """What `truestep.pages.labs.write` takes. It runs every lab and every table: some seconds."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), own_threads(1):
        pictures = {
            "number-line": number_line(),
            "clip-and-unscale": clip_and_unscale(),
            "token-means": token_means(),
            "scale-walk": scale_walk(),
            "one-update": one_update(),
        }
    topics = [{"name": name, "title": title} for name, title in TOPICS.items()]
    shown = [_lab(each, each.run()) for each in labs]
    return {"schema": 1, "topics": topics, "lessons": LESSONS, "labs": shown, "pictures": pictures}


def _lab(lab: Lab, shown: Shown) -> dict[str, Any]:
    fields = ("name", "topic", "title", "claim", "source", "condition")
    return {field: getattr(lab, field) for field in fields} | {
        "facts": list(lab.facts),
        "after": [asdict(each) for each in lab.after],
        "holds": shown.holds,
        "checks": [_check(each) for each in shown.checks],
        "wrong": [{"how": each.how, "damage": each.damage, "check": _check(each.check)} for each in shown.wrong],
        "edges": [{"where": each.where, "check": _check(each.check)} for each in shown.edges],
        "tables": [plain(asdict(each)) for each in shown.tables],
        "asks": [asked(lab, ask, shown) for ask in lab.asks],
    }


def _check(check: Check) -> dict[str, Any]:
    fields = ("what", "expected", "measured", "within", "because", "holds")
    return {field: plain(getattr(check, field)) for field in fields}
