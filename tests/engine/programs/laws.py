"""The laws 1 to 12, each as a function of what one attempt left behind; AssertionError where it does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

import truestep
from tests.engine.programs.program import Setup
from tests.engine.programs.reference import COMPUTE, Ask, Forecast, Reference
from tests.engine.programs.snapshot import Snapshot, differences
from tests.engine.programs.world import WEIGHTS, Batch, weight_of
from truestep import Reason

U = 2.0**-24
SUBNORMAL = 2.0**-149


class Exact(NamedTuple):
    """A gradient that reached an optimizer, the same by definition, and how far apart they may lie."""

    found: list[Tensor | None]
    exact: list[Tensor]
    bounds: list[Tensor]


@dataclass(kw_only=True)
class Evidence:
    """One attempt from outside: what was asked and forecast, what came, and how everything stood before and after."""

    setup: Setup
    ask: Ask
    forecast: Forecast
    reference: Reference
    update: truestep.Update
    outcome: truestep.Outcome | None
    error: BaseException | None
    before: Snapshot
    after: Snapshot
    should: Snapshot
    """The reference's, once it has lived through the same."""
    gradients: list[Tensor | None]
    """What reached the optimizer, by the model's order of parameters; empty where no step began."""
    left: int
    """The parameters and masters on which a gradient stands afterwards."""
    steps: list[int]
    """The optimizers whose step came through, by their place."""
    raised_in_step: bool
    torn: bool
    """The last optimizer's step raised where the engine has no copy to go back to, and something had moved."""
    refusal: Exception | None
    """What then comes of the next attempt."""
    formats: set[torch.dtype]
    """Those of the model's parameters."""
    backwards: int
    dtypes: set[torch.dtype]
    random: Tensor
    ticks: int
    lr: tuple[float, ...]
    """By the schedule's closed form, before the attempt."""
    scale: float
    """By the reference, before the attempt."""
    window: list[Batch]
    """What the engine was handed."""
    exact: list[Exact] = field(default_factory=list)
    """Of every split of these examples that was tried, this one first."""

    @property
    def completed(self) -> bool:
        """Whether the engine says so."""
        return self.outcome is not None and self.outcome.completed


def law_1_split(e: Evidence) -> None:
    """The gradient at the optimizer is the window's, whatever the split: the hand-written loop's, and the definition's."""
    if not (e.completed and e.forecast.completes):
        return
    for expected, found in zip(clipped(e.setup, e.forecast), e.gradients, strict=True):
        assert (expected is None) == (found is None), "a gradient is missing, or one is too many"
        if expected is None:
            continue
        if exact_unit(e.forecast) and not clips(e.setup, e.forecast):
            # A power of two and no clip: one rounding, so that the hand-written loop's bits are the engine's.
            assert torch.equal(found, expected.float()), f"not the hand-written loop's bits: {found} and {expected.float()}"
        # The factor and the product round once each, the fused divisor too; clipping brings the norm's error in.
        bound = (norm_error(e.forecast) + 5 * U) * expected.abs() + 8 * SUBNORMAL
        assert bool(((found.double() - expected).abs() <= bound).all()), f"gradient {found} and expected {expected}"
    for split in e.exact:
        for found, exact, bound in zip(*split, strict=True):
            assert found is not None
            assert bool(((found.double() - exact).abs() <= bound).all()), (
                f"gradient {found}, {exact} by definition, within {bound}"
            )


def law_2_truth(e: Evidence) -> None:
    """Completed exactly where the optimizer stepped, once, and its state is what that step makes of it."""
    every = list(range(len(e.update.optimizers)))
    assert e.steps == (every if e.completed else every[:-1] if e.raised_in_step else []), (
        f"steps of {e.steps}, and completed is {e.completed}"
    )
    if e.outcome is not None and e.forecast.raises is None:
        assert e.completed == e.forecast.completes, f"completed is {e.completed}: {e.outcome.skip}"
    if e.completed:
        assert not (bad := differences(e.after, e.should)), f"not what the optimizer's own step makes: {bad}"
        moved = bool([name for name in differences(e.before, e.after) if name.startswith(("parameter", "master"))])
        assert e.outcome is not None
        assert e.outcome.moved() == moved


def law_3_counts(e: Evidence) -> None:
    """attempts = completed + skipped, each count by hand, in memory and on disk; the schedule stands where its clock says."""
    c, r = e.update.counts, e.reference
    assert c.attempts == c.completed + c.skipped
    by_hand = (r.attempts, r.completed, r.skips, r.consecutive, r.seen, r.applied, r.tokens_seen, r.tokens_applied, r.ticks)
    found = (c.attempts, c.completed, dict(c.skipped_by_reason), c.consecutive_skips, c.examples_seen, c.examples_applied)
    assert (*found, c.tokens_seen, c.tokens_applied, c.ticks) == by_hand, f"{c} and by hand {by_hand}"
    if e.outcome is not None:
        assert e.outcome.counts == c
        assert (e.outcome.examples, e.outcome.tokens) == (e.forecast.examples, e.forecast.tokens)
        assert e.outcome.microbatches == len(e.ask.batches)
        assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(e.outcome.lr, e.lr, strict=True)), f"{e.outcome.lr} {e.lr}"
    rates, should = e.after.get("schedule"), e.should.get("schedule")
    assert rates == should, f"the schedule stands at {rates}, and should at {should}"


def law_4_scale(e: Evidence) -> None:
    """The scale is torch's transition, within its limits, for what moves it; in (0, inf)."""
    assert (e.update.scale.value, e.update.scale.growth_count) == (e.reference.scale, e.reference.growth_count), (
        f"the scale is {e.update.scale.value} ({e.update.scale.growth_count}), and should be"
        f" {e.reference.scale} ({e.reference.growth_count})"
    )
    assert 0.0 < e.update.scale.value < math.inf
    if e.outcome is not None:
        assert (e.outcome.loss_scale, e.outcome.next_loss_scale) == (e.scale, e.update.scale.value)


def law_5_atomic_skip(e: Evidence) -> None:
    """After a skip or an exception everything is as before and no gradient is left; random state has advanced as it had to."""
    assert torch.equal(e.random, e.forecast.random), "the random state is not what the forwards leave"
    if e.completed:
        return
    moved = differences(e.before, e.after)
    if e.torn:
        moved = [name for name in moved if not name.startswith(("parameter", "master", "state"))]
    if e.outcome is not None:
        moved = [name for name in moved if not (e.ticks and name in ("schedule", "rates"))]
    assert not moved, f"moved by a skip or an exception: {moved}"
    assert not e.left, f"gradients were left on {e.left} parameters"


def law_6_finiteness(e: Evidence) -> None:
    """Elements decide: skipped exactly where one is not finite, stored or unscaled, or where nothing had a backward."""
    if e.outcome is None:
        return
    stored = [g for g in e.forecast.stored if g is not None]
    sound = bool(stored) and all(bool(g.isfinite().all()) for g in stored)
    sound = sound and max(float(g.abs().max()) for g in stored) * e.forecast.unit < 2.0**128 - 2.0**103
    assert e.completed == sound, f"completed is {e.completed}, the elements are {'' if sound else 'not '}finite: {e.outcome.skip}"
    if e.completed:
        assert all(bool(g.isfinite().all()) for g in e.gradients if g is not None)


def law_7_units(e: Evidence) -> None:
    """Norms are in original units, before and after clipping, and the clip limit too."""
    if e.outcome is None:
        return
    if not e.completed:
        assert e.outcome.grad_norm is None
        assert e.outcome.grad_norm_clipped is None
        return
    if not e.forecast.completes:
        return
    close = norm_error(e.forecast)
    norm = e.forecast.norm
    assert math.isclose(e.outcome.grad_norm, norm, rel_tol=close, abs_tol=SUBNORMAL), f"{e.outcome.grad_norm}, by hand {norm}"
    expected = math.hypot(*(float(x) for g in clipped(e.setup, e.forecast) if g is not None for x in g.flatten()))
    found = e.outcome.grad_norm_clipped
    assert math.isclose(found, expected, rel_tol=2 * close + 4 * U, abs_tol=SUBNORMAL), f"clipped {found}, by hand {expected}"


def law_8_weights(e: Evidence) -> None:
    """Losses by their shares of the total weight; a microbatch of weight 0 gets no backward."""
    if e.outcome is None:
        return
    assert e.outcome.weight == e.forecast.weight
    loss, expected = e.outcome.loss, e.forecast.loss
    if expected is None or loss is None:
        assert loss is expected
    elif math.isfinite(expected):  # float64 throughout: a product and a sum for each microbatch
        size = sum(abs(f * x) for f, x in zip([f for f in e.forecast.factors if f], e.forecast.losses, strict=True))
        assert abs(loss - expected) <= 1e-12 * size
    else:
        assert loss == expected or math.isnan(loss) == math.isnan(expected)
    if e.completed:
        assert e.backwards == sum(f != 0.0 for f in e.forecast.factors), f"{e.backwards} backwards of {e.forecast.factors}"


def law_9_all_or_none(e: Evidence) -> None:
    """Every parameter that got a gradient has been stepped equally often by its optimizer, in every group."""
    if e.torn:
        assert isinstance(e.refusal, truestep.errors.StateError), f"after half a step the next attempt gave {e.refusal!r}"
        return
    optimizers = len(e.update.optimizers)
    assert e.raised_in_step or len(e.steps) in (0, optimizers), f"{len(e.steps)} of {optimizers} optimizers stepped"
    grown = {
        key: float(e.after[key]) - float(e.before.get(key, 0.0))
        for key in e.after
        if key.startswith("state") and key.endswith(" step")
    }
    for index, gradient in enumerate(e.gradients):
        step = grown.get(f"state {index} step")
        assert step is None or step == float(e.completed and gradient is not None), f"parameter {index} made {step} steps"


def law_10_reasons(e: Evidence) -> None:
    """A skip has its reason and names the first offender; the limit of skips in a row ends the run with the outcome."""
    limit, skipped = e.setup.max_consecutive_skips, e.outcome is not None and not e.completed
    if skipped and e.outcome.skip is not None:
        skip = e.outcome.skip
        assert skip.reason in e.forecast.reasons, f"{skip}, and it should be one of {set(map(str, e.forecast.reasons))}"
        if e.forecast.place is not None:
            named = skip.reason not in (Reason.INPUT, Reason.PARAMETER) or skip.place == e.forecast.place
            assert named, f"{skip}, and {e.forecast.place} should be named"
        if e.forecast.curable is not None:
            assert skip.curable == e.forecast.curable, f"{skip}"
        assert skip.detail
    over = skipped and limit is not None and e.reference.consecutive >= limit
    assert isinstance(e.error, truestep.errors.SkipLimitError) == over, f"{e.error!r} after {e.reference.consecutive} skips"
    if isinstance(e.error, truestep.errors.SkipLimitError):
        assert e.error.outcome is e.outcome
    elif e.forecast.raises is None:
        assert e.error is None, f"{e.error!r}"
    else:
        assert type(e.error) is e.forecast.raises, f"{e.error!r}, and {e.forecast.raises.__name__} was to come"


def law_11_no_substitution(e: Evidence) -> None:
    """What was asked is what ran: the policy's name and the format that the model computed in."""
    if e.outcome is not None:
        assert e.outcome.policy == e.setup.policy
    if e.completed:
        assert WEIGHTS.get(e.setup.policy, torch.float32) in e.formats, f"weights in {e.formats}"
        assert e.dtypes == {COMPUTE[e.setup.policy] or torch.float32}, f"{e.dtypes}"


def law_12_short_windows(e: Evidence) -> None:
    """A window holds its own microbatches, none carried over, says whether it ends the epoch, and is divided by its own total."""
    assert list(map(id, e.window)) == list(map(id, e.ask.batches)), "microbatches were carried into another window"
    assert e.ask.block or getattr(e.window, "ends_epoch", False) == e.ask.ends_epoch, "the epoch's end is elsewhere"
    if e.completed and e.outcome is not None and e.setup.loss_is != "share":
        own = [weight_of(e.setup, batch) for batch in e.ask.batches]
        assert e.outcome.weight == sum(own), f"divided by {e.outcome.weight}, and its own total is {sum(own)}"


def exact_unit(forecast: Forecast) -> bool:
    """Whether unscaling is exact: by a power of two that float32 holds."""
    return math.frexp(forecast.unit)[0] == 0.5 and 2.0**-126 <= forecast.unit <= 2.0**126


def clips(setup: Setup, forecast: Forecast) -> bool:
    """Whether the declared clip may change this gradient."""
    if setup.clip is None:
        return False
    kind, limit = setup.clip
    sizes = [float(g.abs().max()) for g in forecast.gradient if g is not None]
    return forecast.norm > limit * (1 - 1e-6) if kind == "norm" else max(sizes) > limit * (1 - 1e-6)


def clipped(setup: Setup, forecast: Forecast) -> list[Tensor | None]:
    """The forecast's gradient after the declared clip, in original units."""
    if setup.clip is None:
        return forecast.gradient
    kind, limit = setup.clip
    if kind == "value":
        return [None if g is None else g.clamp(-limit, limit) for g in forecast.gradient]
    factor = min(1.0, limit / forecast.norm) if forecast.norm else 1.0
    return [None if g is None else g * factor for g in forecast.gradient]


def norm_error(forecast: Forecast) -> float:
    """The relative error of a norm whose squares are summed in float32, blocks of it in float64: (n + 2) roundings, halved by the
    root, of which the engine also loses 2^-24 to squares too small for float32."""
    count = sum(g.numel() for g in forecast.stored if g is not None)
    return (count + 4) * U


LAWS: tuple[Callable[[Evidence], None], ...] = (
    law_2_truth,
    law_6_finiteness,
    law_5_atomic_skip,
    law_1_split,
    law_3_counts,
    law_4_scale,
    law_7_units,
    law_8_weights,
    law_9_all_or_none,
    law_10_reasons,
    law_11_no_substitution,
    law_12_short_windows,
)
