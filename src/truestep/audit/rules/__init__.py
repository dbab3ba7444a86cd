"""What can be wrong with an update: one rule a file, each with a bad example, a good one, and its source."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from truestep.audit.finding import Rule


@cache
def rules() -> dict[str, Rule]:
    """Every rule by its id, in alphabetical order."""
    modules = (importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))
    return {rule.id: rule for rule in sorted((module.RULE for module in modules), key=lambda rule: rule.id)}
