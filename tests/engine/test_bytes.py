"""The bytes a parameter that each policy takes, measured in processes of their own by benchmarks/weight_bytes.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "weight_bytes.py"


@pytest.fixture(scope="module")
def bytes_of() -> ModuleType:
    spec = importlib.util.spec_from_file_location("weight_bytes", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def autocast(bytes_of: ModuleType) -> dict[str, float]:
    """What every other row is told from."""
    return bytes_of.row_of("bf16", 1)


# AdamW. Held: weights, masters, two moments; told from autocast's 12, beside which torch keeps a workspace for bfloat16 products.
# Gradients: in the weights' format with one microbatch, in float32 with several.
WANTED = {
    ("bf16-master", 1): (2 + 4 + 8, 2),
    ("bf16-master", 2): (2 + 4 + 8, 4),
    ("bf16-pure", 1): (2 + 4, 2),
}


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize(("policy", "microbatches"), WANTED)
def test_bytes_a_parameter_are_those_of_lesson_c6(
    bytes_of: ModuleType, autocast: dict[str, float], policy: str, microbatches: int
) -> None:
    found = bytes_of.row_of(policy, microbatches)
    held, gradients = WANTED[policy, microbatches]
    # The smallest thing that could be there unseen is 2 bytes a parameter.
    assert abs(found["held"] - autocast["held"] - (held - 12)) < 0.5
    assert abs(found["gradients"] - gradients) < 0.5
