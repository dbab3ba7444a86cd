"""All labs, found in the folders of their topics."""

from __future__ import annotations

import graphlib
import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from truestep.errors import UsageError
from truestep.labs.lab import TOPICS, Lab


@cache
def labs() -> tuple[Lab, ...]:
    """Every lab once, in an order that builds up: by topic, and within one each after those that it comes after."""
    found = {lab.name: lab for topic in TOPICS for lab in _of(topic)}
    arrows = {lab.name: [each.lab for each in lab.after if found[each.lab].topic == lab.topic] for lab in found.values()}
    place = {name: number for number, name in enumerate(graphlib.TopologicalSorter(arrows).static_order())}
    topics = list(TOPICS)
    return tuple(sorted(found.values(), key=lambda lab: (topics.index(lab.topic), place[lab.name])))


def lab(name: str) -> Lab:
    """The lab of that name; UsageError, with those of a name like it, or else with all, where there is none."""
    known = {each.name: each for each in labs()}
    if name in known:
        return known[name]
    near = get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"choose one of: {', '.join(known)}"
    raise UsageError(f"there is no lab called {name!r}", hint=hint, name=name)


def _of(topic: str) -> list[Lab]:
    """The labs of a topic: `LAB` of each file in its folder whose name does not begin with an underscore."""
    package = f"truestep.labs.{topic}"
    folder = files("truestep.labs").joinpath(topic)
    names = sorted(each.name for each in pkgutil.iter_modules([str(folder)]) if not each.name.startswith("_"))
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    return [module.LAB for module in modules]
