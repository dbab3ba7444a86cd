"""The three settings of clip-order with gradients from short to long: what each operation leaves, in either order."""

from __future__ import annotations

import math
from typing import Any

from truestep.labs.chosen import Vector, by_the_engine
from truestep.labs.scaling.clip_order import SETTINGS, by_hand

FACTORS = tuple(2.0 ** (exponent / 2) for exponent in range(-10, 11))
"""Of the setting's own gradient; the middle one is 1."""


def clip_and_unscale() -> dict[str, Any]:
    """Of each setting, for each factor, the norms and vectors of each stage in both orders, and the engine's."""
    return {"factors": list(FACTORS), "settings": [_setting(row, *setting) for row, setting in SETTINGS.items()]}


def _setting(row: str, gradient: Vector, scale: float, limit: float) -> dict[str, Any]:
    cases = [case(tuple(value * factor for value in gradient), scale, limit) for factor in FACTORS]
    return {"row": row, "gradient": list(gradient), "scale": scale, "limit": limit, "cases": cases}


def case(gradient: Vector, scale: float, limit: float) -> dict[str, Any]:
    """One gradient: the three stages of each order by a loop by hand, and what the engine hands to the optimizer."""
    stages = {first: by_hand(gradient, scale, limit, first=first) for first in ("unscale", "clip")}
    return {
        "true": _stage(gradient),
        "unscale": [_stage(stage) for stage in stages["unscale"]],
        "clip": [_stage(stage) for stage in stages["clip"]],
        "engine": _stage(by_the_engine(gradient, scale, limit)),
    }


def _stage(vector: Vector) -> dict[str, Any]:
    return {"vector": list(vector), "norm": math.hypot(*vector)}
