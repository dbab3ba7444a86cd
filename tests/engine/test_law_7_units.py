"""Law 7: norms, clip limits, penalties and losses are in original units, whatever the scale."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, same, weights
from truestep.errors import ClipError

POWERS = [2.0**k for k in (-10, 0, 10, 16, 60, 127)]


class Given(nn.Module):
    """A model whose gradient is whatever the test gives it."""

    def __init__(self, gradient: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(len(gradient)))
        self.gradient = torch.tensor(gradient)


def apply(gradient: list[float], *, fused: bool = False, policy: str = "fp32", **options) -> tuple[Tensor, truestep.Outcome]:
    """The gradient that reaches SGD(lr=1) from zero weights, and the outcome."""
    model = Given(gradient)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0, fused=fused),
        loss=lambda model, x: (model.weight * model.gradient).sum(),
        loss_is="share",
        policy=policy,
        **options,
    )
    outcome = update([torch.zeros(1)])
    return -model.weight.detach(), outcome


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1024.0, 65536.0])
def test_lessons_a1_to_a3_clip_in_original_units(scale: float, fused: bool) -> None:
    scaled = {"scale": truestep.LossScale.static(scale), "clip": truestep.ClipNorm(1.0), "fused": fused}
    # One factor rounds once, the scaled gradient once, and a limit / norm once: 3 roundings of 2^-24.
    tolerance = {"rel": 3 * 2.0**-24}
    reached, outcome = apply([0.2], **scaled)
    assert float(reached[0]) == pytest.approx(0.2, **tolerance)
    assert outcome.grad_norm == pytest.approx(0.2, rel=1e-6)
    reached, outcome = apply([2.0], **scaled)
    assert float(reached[0]) == pytest.approx(1.0, **tolerance)
    assert (outcome.grad_norm, outcome.grad_norm_clipped) == (pytest.approx(2.0, rel=1e-6), 1.0)
    scaled["clip"] = truestep.ClipNorm(2.0)
    reached, outcome = apply([3.0, 4.0], **scaled)
    assert reached.tolist() == pytest.approx([1.2, 1.6], rel=1e-6)
    assert outcome.grad_norm == pytest.approx(5.0, rel=1e-6)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("scale", POWERS)
def test_a_power_of_two_scale_leaves_every_bit(scale: float, fused: bool) -> None:
    gradient = [0.2, -3.0, 1e-20 if scale >= 1 else 1e-3]
    if scale == 2.0**127:
        gradient = [0.2, -0.3, 1e-20]
    plain, _ = apply(gradient)
    reached, outcome = apply(gradient, fused=fused, scale=truestep.LossScale.static(scale))
    assert same([plain], [reached])
    assert outcome.loss == 0.0


@settings(deadline=None, max_examples=80)
@given(
    gradient=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=5),
    exponent=st.integers(-8, 24),
    limit=st.floats(0.01, 50),
)
def test_clipping_keeps_the_direction_and_ends_at_the_limit(gradient: list[float], exponent: int, limit: float) -> None:
    reached, outcome = apply(gradient, scale=truestep.LossScale.static(2.0**exponent), clip=truestep.ClipNorm(limit))
    exact = torch.tensor(gradient, dtype=torch.float32).double()
    norm = float(exact.norm())
    wanted = exact * min(1.0, limit / norm) if norm else exact
    # The block norm's few roundings, and two of the product: 2^-20 covers 16 of them. Subnormals lose half of 2^-149 when the
    # result is rounded, and as much when it is stored, which is then divided by the scale.
    lost = 2.0**-150 * (1 + 2.0**-exponent)
    assert bool(((reached.double() - wanted).abs() <= 2.0**-20 * wanted.abs() + lost).all())
    assert outcome.grad_norm == pytest.approx(norm, rel=2.0**-20)
    assert outcome.grad_norm_clipped == pytest.approx(min(norm, limit), rel=2.0**-20)


@pytest.mark.parametrize("scale", [1.0, 1024.0, 65536.0])
def test_clipping_by_value_cuts_in_original_units(scale: float) -> None:
    reached, outcome = apply([0.2, -3.0, 0.5], scale=truestep.LossScale.static(scale), clip=truestep.ClipValue(0.5))
    assert reached.tolist() == [torch.tensor(0.2).item(), -0.5, 0.5]
    assert outcome.grad_norm_clipped == pytest.approx((0.2**2 + 0.5) ** 0.5, rel=1e-6)


def test_clipping_by_value_holds_where_scaled_units_are_too_small_for_the_limit() -> None:
    reached, outcome = apply([3.0, -0.5], scale=truestep.LossScale.static(2.0**-94), clip=truestep.ClipValue(1e-20))
    assert reached.tolist() == [torch.tensor(1e-20).item(), torch.tensor(-1e-20).item()]  # 1e-20 * 2^-94 is 0 in float32
    assert outcome.grad_norm_clipped == pytest.approx(2.0**0.5 * 1e-20, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("clip", [truestep.ClipValue(1.0), truestep.ClipNorm(1.0)])
def test_an_infinity_is_not_clipped_to_a_large_value(clip: truestep.ClipNorm | truestep.ClipValue) -> None:
    reached, outcome = apply([float("inf"), 1.0], clip=clip)
    assert not outcome.completed
    assert reached.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_loss_and_norm_do_not_know_the_scale(policy: str) -> None:
    outcomes = []
    for scale in (1.0, 2.0**10):
        model = mlp()
        update = truestep.Update(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            loss=cross_entropy,
            policy=policy,
            scale=truestep.LossScale.static(scale),
        )
        outcomes.append(update([batch(6), batch(4)]))
    assert outcomes[0].loss == outcomes[1].loss
    # float16 backward without scaling flushes what is below 2^-25; at these sizes it only loses bits of subnormals.
    assert outcomes[0].grad_norm == pytest.approx(outcomes[1].grad_norm, rel=0.0 if policy != "fp16" else 2.0**-8)


@pytest.mark.parametrize("scale", [1.0, 1024.0, 2.0**20])
def test_a_gradient_penalty_is_the_one_of_float32_by_hand(scale: float) -> None:
    def penalized(model: nn.Module, x: Tensor, gradient: Tensor) -> Tensor:
        return model(x).square().mean() + (gradient.norm(dim=1) - 1).square().mean()

    by_hand, ours = mlp(), mlp()
    x = batch(5)[0]
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(by_hand(leaf).sum(), leaf, create_graph=True)
    penalized(by_hand, x, gradient).backward()
    update = truestep.Update(
        ours,
        torch.optim.SGD(ours.parameters(), lr=0.0),
        loss=cross_entropy,
        scale=truestep.LossScale.static(scale),
    )
    with update.attempt() as attempt:
        leaf = x.clone().requires_grad_()
        (gradient,) = attempt.grad(ours(leaf).sum(), leaf)
        attempt.backward(penalized(ours, x, gradient), share=1.0)
    assert same([p.grad for p in by_hand.parameters()], [p.grad for p in ours.parameters()])
    assert same(weights(by_hand), weights(ours))


@pytest.mark.parametrize("kind", [truestep.ClipNorm, truestep.ClipValue])
@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf"), float("nan"), 5e-324, "one", None])
def test_what_is_no_limit_is_refused(kind: type, limit: float) -> None:
    with pytest.raises(ClipError, match="positive, finite"):
        kind(limit)
