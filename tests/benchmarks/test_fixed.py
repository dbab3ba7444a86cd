"""The rivals' text stands as it was given, and our contenders end with their weights."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import fixed as loading
from benchmarks import tail
from benchmarks.fixed import Clock, fixed, way
from benchmarks.our_tail import Tail

FOLDER = Path(loading.__file__).parent
GIVEN = {
    ("update_overhead", "make"): "8faf1786b1bac4c8",
    ("update_overhead", "hand"): "4c8f465793fa8de7",
    ("update_overhead", "accelerate"): "64160666bf0c7667",
    ("update_overhead", "fabric"): "66e905fc726fa5ff",
    ("update_tail", "Side"): "78b25df3ff8155e9",
}
"""The first digits of the SHA-256 of what was given."""


@pytest.mark.parametrize(("file", "name"), GIVEN)
def test_the_rivals_text_is_word_for_word_what_was_given(file: str, name: str) -> None:
    text = (FOLDER / f"{file}.py").read_text()
    (node,) = (node for node in ast.parse(text).body if getattr(node, "name", None) == name)
    segment = ast.get_source_segment(text, node)
    assert segment is not None
    assert hashlib.sha256(segment.encode()).hexdigest()[:16] == GIVEN[file, name]


def test_a_fixed_file_takes_its_command_line_and_is_loaded_anew() -> None:
    one, other = fixed("update_overhead", 8, 2, 3), fixed("update_overhead", 16, 2, 3)
    assert (one.WIDTH, other.WIDTH, one.UPDATES, len(one.DATA)) == (8, 16, 3, 12)


def test_a_loop_by_hand_and_ours_end_with_the_same_weights() -> None:
    module = fixed("update_overhead", 16, 4, 3)
    module.time = clock = Clock()
    begun = list(module.make()[0].parameters())
    seconds, by_hand = module.hand()
    _, ours = module.ours()
    assert way(ours, by_hand, begun) < 1e-3
    assert 0.0 < seconds < 60.0
    assert len(clock.beside) == 4
    assert clock.beside_seconds() > 0.0


def test_way_tells_an_update_that_was_left_out() -> None:
    begun, wanted = [torch.zeros(4)], [torch.full((4,), 10.0)]
    assert way([torch.full((4,), 9.0)], wanted, begun) == pytest.approx(0.1)
    assert way(wanted, wanted, begun) == 0.0


@pytest.mark.parametrize("policy", ["fp16", "bf16"])
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
@pytest.mark.parametrize("fused", [True, False])
def test_our_tail_ends_with_the_rivals_weights(policy: str, optimizer: str, fused: bool) -> None:
    row = tail.row(fixed("update_tail", 6000, 3), policy, optimizer, fused=fused, rounds=3, most_seconds=1.0)
    assert row.apart <= 1e-3
    assert (row.millions, row.tensors, row.floor_ms > 0.0) == (0, 3, True)


def test_a_tail_that_leaves_the_clip_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda params, most: None)
    with pytest.raises(AssertionError, match="the weights differ"):
        tail.row(fixed("update_tail", 6000, 3), "bf16", "SGD", fused=True, rounds=3, most_seconds=1.0)


def test_given_gradients_stand_where_a_backward_would_have_put_them() -> None:
    params = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))]
    gradients = [torch.tensor([3.0, 0.0, 0.0]), torch.tensor([4.0, 0.0])]
    made = Tail(params, torch.optim.SGD(params, lr=1.0), gradients, scale=2.0)
    made.open()
    assert all(torch.equal(p.grad, gradient) for p, gradient in zip(params, gradients, strict=True) if p.grad is not None)
    made.close()
    assert torch.allclose(params[0], torch.tensor([-0.6, 0.0, 0.0]))  # the norm 5 / 2 is clipped to 1
