"""The reference interpreter: what a careful person's plain torch loop does with one window, and what it counts by hand."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.engine.programs.program import Scale, Setup
from tests.engine.programs.world import WEIGHTS, Batch, UserError, World, build, parameters, scored, weight_of
from truestep import Reason
from truestep.errors import ClockError, WeightError

COMPUTE = {
    "fp32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "bf16-master": torch.bfloat16,
    "fp16-master": torch.float16,
    "bf16-pure": torch.bfloat16,
}
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # halfway between the largest float32 and 2^128: rounds to infinity
HUGE = 2.0**15
"""Beyond it a weight may overflow by itself, in float16 or in a product: the reason of a skip is then left open."""
UNSCALED = Scale(kind="none", init=1.0)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How one window is handed over: as a call or as a block, with what is declared of it."""

    batches: list[Batch]
    block: bool = False
    total: bool = True
    told: str = "microbatch"
    raises_at: int | None = None
    ends_epoch: bool = False
    step_raises: bool = False


@dataclass(kw_only=True)
class Forecast:
    """What has to come of a window. Gradients are per parameter, None where there is none."""

    raises: type[Exception] | None = None
    completes: bool = False
    reasons: frozenset[Reason] = frozenset()
    """Those that a skip may have."""
    curable: bool | None = None
    """Whether a smaller scale can cure it; None where this reference cannot tell."""
    place: str | None = None
    stored: list[Tensor | None] = field(default_factory=list)
    gradient: list[Tensor | None] = field(default_factory=list)
    """In original units before clipping, float64."""
    factors: list[float] = field(default_factory=list)
    divisor: float = 1.0
    unit: float = 1.0
    norm: float = 0.0
    losses: list[float] = field(default_factory=list)
    """Of the microbatches that had a backward."""
    loss: float | None = None
    weight: float | None = None
    examples: int | None = None
    tokens: int | None = None
    random: Tensor = field(default_factory=torch.get_rng_state)


class Reference:
    """Its own model, optimizer and schedule, a scale moved by torch's own kernel, and counts kept by hand."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.world = setup, build(setup)
        self.kind = setup.scale or (Scale() if setup.policy.startswith("fp16") else UNSCALED)
        self._narrow()
        self.scale, self.growth_count = (1.0 if self.kind.kind == "none" else self.kind.init), 0
        self.attempts = self.completed = self.consecutive = self.ticks = self.seen = self.applied = 0
        self.skips: dict[str, int] = {}
        self.tokens_seen: int | None = None
        self.tokens_applied: int | None = None

    def _narrow(self) -> None:
        """By hand: weights cast to the policy's format, and masters or the weights themselves given to the optimizer."""
        model, dtype = self.world.model, WEIGHTS.get(self.setup.policy)
        self.leaves = parameters(self.setup, model)
        wide = [p.detach().clone() for p in self.leaves]
        norms = [p for m in model.modules() if isinstance(m, torch.nn.BatchNorm1d) for p in m.parameters()]
        for p in model.parameters():
            if dtype is not None and not any(p is norm for norm in norms):
                p.data = p.data.to(dtype)
        stepped = self.leaves
        if self.setup.policy.endswith("-master"):
            pairs = zip(self.leaves, wide, strict=True)
            stepped = [torch.nn.Parameter(w) if p.dtype is dtype else p for p, w in pairs]
        self.world.train_by(stepped)
        self.world.schedule()

    def forecast(self, ask: Ask) -> Forecast:
        """What comes of `ask`, found out on the reference's own model, which stays as it was but for its random state."""
        found = Forecast()
        start = torch.get_rng_state()
        with self._undone():
            try:
                self._accumulate(ask, found, self.scale)
            except (UserError, ValueError, WeightError) as error:  # ValueError: BatchNorm's, of a single example
                found.raises = type(error)
            found.random = torch.get_rng_state()
            found.stored = list(self._sums)
            if found.raises is None:
                self._judge(ask, found, start)
        torch.set_rng_state(found.random)
        return found

    def commit(self, ask: Ask, found: Forecast, reason: Reason | None, gradients: list[Tensor | None], *, curable: bool) -> int:
        """Live through the attempt: its forwards, the step on `gradients`, the counts, the ticks, the scale. The ticks."""
        finite = reason is None
        if finite:
            random = torch.get_rng_state()
            torch.set_rng_state(self._before)
            self._accumulate(ask, Forecast(), self.scale)
            torch.set_rng_state(random)
            self._step(gradients)
        ticks = self._count(ask, found, reason)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)  # a first attempt was skipped
            for _ in range(ticks):
                for scheduler in self.world.schedulers:
                    scheduler.step()
        if finite or curable or (self.setup.incurable == "backoff" and reason is not Reason.WEIGHT):
            self._move_scale(finite=finite)
        return ticks

    def _accumulate(self, ask: Ask, found: Forecast, scale: float, *, shared: bool = True, only: int | None = None) -> None:
        """The hand-written loop: every forward, and the backward of loss * (scale * share) where the weight is not 0."""
        self._before = torch.get_rng_state()
        dtype = COMPUTE[self.setup.policy]
        found.factors, found.divisor, found.weight = self._shares(ask)
        self._sums: list[Tensor | None] = [None] * len(self.leaves)
        for index, batch in enumerate(ask.batches):
            if ask.raises_at == 2 * index:
                raise UserError("before a forward")
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = self.world.loss(self.world.model, batch)
            if ask.raises_at == 2 * index + 1:
                raise UserError("before a backward")
            factor = found.factors[index]
            if factor is None:
                raise WeightError("too far from the first", hint="declare a total")
            if factor != 0.0 and only in (None, index):
                found.losses.append(loss.item())
                self._add(loss * (scale * factor if shared else scale))
        if ask.raises_at is not None and ask.raises_at >= 2 * len(ask.batches):
            raise UserError("after the last backward")
        found.unit = 1.0 / (scale * found.divisor)

    def _add(self, scaled: Tensor) -> None:
        """The backward of one microbatch, by itself, and its gradients added up in float32."""
        for p in self.world.model.parameters():
            p.grad = None
        scaled.backward()
        for index, p in enumerate(self.leaves):
            if p.grad is not None:
                held, self._sums[index] = self._sums[index], p.grad.float()
                if held is not None:
                    self._sums[index] = held + p.grad.float()
            p.grad = None

    def _step(self, gradients: list[Tensor | None]) -> None:
        """torch's own step on `gradients`; weights follow their masters; pure weights and moments are float32 until `adopt`."""
        pure = self.setup.policy == "bf16-pure"
        for leaf, p, gradient in zip(self.leaves, self.world.stepped, gradients, strict=True):
            if pure and leaf.dtype is torch.bfloat16:
                leaf.data = leaf.data.float()
                for optimizer in self.world.optimizers:
                    for key, value in optimizer.state.get(leaf, {}).items():
                        if isinstance(value, Tensor) and value.dtype is torch.bfloat16:
                            optimizer.state[leaf][key] = value.float()
            p.grad = None if gradient is None else gradient.clone()
        for optimizer in self.world.optimizers:
            optimizer.step()
        for leaf, p in zip(self.leaves, self.world.stepped, strict=True):
            if leaf is not p:
                leaf.data.copy_(p.data)
            p.grad = None

    def adopt(self, world: World) -> None:
        """Take over what was drawn: weights and moments that are rounded stochastically."""
        if self.setup.policy != "bf16-pure":
            return
        for own, p in zip(self.world.model.parameters(), world.model.parameters(), strict=True):
            own.data = p.detach().clone()
        for mine, theirs in zip(self.world.optimizers, world.optimizers, strict=True):
            params = ([p for group in o.param_groups for p in group["params"]] for o in (mine, theirs))
            for own, p in zip(*params, strict=True):
                for key, value in theirs.state.get(p, {}).items():
                    if isinstance(value, Tensor):
                        mine.state[own][key] = value.detach().clone()

    def _shares(self, ask: Ask) -> tuple[list[Any], float, float | None]:
        """The factor of each loss, None for one that is refused; what is left to divide by; the total weight."""
        if self.setup.loss_is == "share":
            return [1.0] * len(ask.batches), 1.0, None
        weights = [float(weight_of(self.setup, batch) or 0.0) for batch in ask.batches]
        total = sum(weights)
        mean = self.setup.loss_is == "mean"
        if ask.total:
            return [(w / total if mean else 1.0 / total) if w else 0.0 for w in weights], 1.0, total
        first = next((w for w in weights if w), 1.0)
        near = [w == 0.0 or 2.0**-8 <= w / first <= 2.0**8 for w in weights]
        factors = [
            ((w / first if mean else 1.0 / first) if w else 0.0) if ok else None for w, ok in zip(weights, near, strict=True)
        ]
        return factors, total / first if total else 1.0, total

    def _judge(self, ask: Ask, found: Forecast, start: Tensor) -> None:
        """Elements decide, stored and unscaled."""
        if found.losses:
            found.loss = sum(f * x for f, x in zip(filter(None, found.factors), found.losses, strict=True)) / found.divisor
        if ask.told != "nothing":
            found.examples = sum(batch["size"] for batch in ask.batches)
            found.tokens = sum(map(scored, ask.batches)) if self.setup.tokens else None
        clock = self.setup.clock
        if self.setup.scheduler and not isinstance(clock, str) and getattr(found, clock[0]) is None:
            found.raises = ClockError
            return
        stored = [g for g in found.stored if g is not None]
        if not found.losses:
            found.reasons, found.curable = frozenset({Reason.WEIGHT}), False
            return
        if not all(bool(g.isfinite().all()) for g in stored):
            self._explain(ask, found, start)
            return
        found.gradient = [None if g is None else g.double() * found.unit for g in found.stored]
        if max(float(g.abs().max()) for g in found.gradient if g is not None) >= FLOAT32_OVERFLOW:
            found.reasons, found.curable = frozenset({Reason.UNSCALE}), False
            return
        found.norm = math.hypot(*(float(x) for g in found.gradient if g is not None for x in g.flatten()))
        if ask.step_raises:
            found.raises = UserError
            return
        found.completes = True

    def _explain(self, ask: Ask, found: Forecast, start: Tensor) -> None:
        """Which reasons a gradient that is not finite may have: what a smaller scale cures, else from the outside in."""
        active = [index for index, factor in enumerate(found.factors) if factor]
        bad_losses = [i for i, loss in zip(active, found.losses, strict=True) if not math.isfinite(loss)]
        if ask.block:
            found.curable = False
            if not self._given(ask, found, bad_losses, named=ask.told == "microbatch"):
                self._untried(found, bad=bool(bad_losses))
        elif self._scale_decides(ask, found, active, start):
            return
        else:
            found.curable = False
            if any(float(p.detach().abs().max()) > HUGE for p in self.world.model.parameters()):
                found.reasons = frozenset(Reason) - {Reason.WEIGHT, Reason.UNSCALE}
                return
            undefined = [i for i in active if not self._finite_at(ask, 2.0**-126, start, shared=False, only=i)]
            if not self._given(ask, found, undefined[:1] or bad_losses, named=True):
                found.reasons = frozenset({Reason.FORWARD, Reason.LOSS} if bad_losses else {Reason.BACKWARD})
                if undefined and undefined[0] not in bad_losses:
                    found.reasons = frozenset({Reason.UNDEFINED, Reason.FORWARD})

    def _given(self, ask: Ask, found: Forecast, among: list[int], *, named: bool) -> bool:
        """Whether an input of one of these microbatches, or a parameter, was not finite before anything was computed."""
        xs = {i: ask.batches[i]["x"] for i in among if ask.batches[i]["x"].is_floating_point()}
        inputs = [i for i, x in xs.items() if not x.isfinite().all()]
        params = [name for name, p in self.world.model.named_parameters() if not p.isfinite().all()]
        if inputs and named:
            found.reasons, found.place = frozenset({Reason.INPUT}), f"microbatch {inputs[0]}['x']"
        if params:
            found.place = None if inputs and named else params[0] if len(params) == 1 else None
            found.reasons |= {Reason.PARAMETER}
        return bool(found.reasons)

    def _untried(self, found: Forecast, *, bad: bool) -> None:
        """A block cannot be run again: the loss alone tells."""
        scales = self.kind.kind != "none"
        found.reasons = frozenset({Reason.LOSS if bad else Reason.BACKWARD if scales else Reason.UNDEFINED})
        found.curable = scales and not bad and self._can_shrink

    def _scale_decides(self, ask: Ask, found: Forecast, active: list[int], start: Tensor) -> bool:
        """Whether the smallest permitted scale leaves the gradient finite, the window's and each microbatch's.

        Where only one of the two is, whoever judges by the other is right too, and this forecast is open.
        """
        if self.kind.kind == "none":
            return False
        lowest = 2.0**self.kind.low if self.kind.kind == "dynamic" else min(self.scale, 1.0)
        whole = self._finite_at(ask, lowest, start, shared=True)
        alone = all(self._finite_at(ask, lowest, start, shared=False, only=i) for i in active)
        if whole and alone:
            found.reasons, found.curable = frozenset({Reason.BACKWARD}), self._can_shrink
        elif whole or alone:
            found.reasons, found.curable = frozenset(Reason) - {Reason.WEIGHT, Reason.UNSCALE}, None
        return whole or alone

    @property
    def _can_shrink(self) -> bool:
        return self.kind.kind == "dynamic" and self.scale > 2.0**self.kind.low

    def _finite_at(self, ask: Ask, scale: float, start: Tensor, *, shared: bool, only: int | None = None) -> bool:
        torch.set_rng_state(start)
        self._accumulate(ask, Forecast(), scale, shared=shared, only=only)
        return all(bool(g.isfinite().all()) for g in self._sums if g is not None)

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """What forwards write is taken back."""
        model = self.world.model
        kept, calls = {name: b.clone() for name, b in model.named_buffers()}, getattr(model, "calls", None)
        before = torch.get_rng_state()
        yield
        self._before = before
        for module_name, module in model.named_modules():
            for name in module._buffers:
                module._buffers[name] = kept[f"{module_name}.{name}".lstrip(".")]
        if calls is not None:
            model.calls = calls

    def _count(self, ask: Ask, found: Forecast, reason: Reason | None) -> int:
        applied = reason is None
        before_examples, before_tokens = self.applied, self.tokens_applied or 0
        self.attempts += 1
        self.completed += applied
        self.consecutive = 0 if applied else self.consecutive + 1
        if reason is not None:
            self.skips[str(reason)] = self.skips.get(str(reason), 0) + 1
        self.seen += found.examples or 0
        self.applied += (found.examples or 0) if applied else 0
        if found.tokens is not None:
            self.tokens_seen = (self.tokens_seen or 0) + found.tokens
            self.tokens_applied = (self.tokens_applied or 0) + (found.tokens if applied else 0)
        clock = self.setup.clock
        if self.setup.scheduler is None:
            ticks = 0
        elif isinstance(clock, str):
            ticks = {"completed": int(applied), "attempt": 1, "epoch": int(ask.ends_epoch)}[clock]
        else:
            now, before = {"examples": (self.applied, before_examples), "tokens": (self.tokens_applied or 0, before_tokens)}[
                clock[0]
            ]
            ticks = now // clock[1] - before // clock[1]
        self.ticks += ticks
        return ticks

    def _move_scale(self, *, finite: bool) -> None:
        """torch.amp.GradScaler's own kernel; then the limits."""
        if self.kind.kind != "dynamic":
            return
        scale, tracker = torch.tensor(self.scale), torch.tensor(self.growth_count, dtype=torch.int32)
        found = torch.tensor(0.0 if finite else 1.0)
        torch._amp_update_scale_(scale, tracker, found, self.kind.growth, self.kind.backoff, self.kind.interval)
        moved = scale.item()
        if self.kind.high is not None and finite and self.growth_count + 1 == self.kind.interval:
            grown = (torch.tensor(self.scale) * self.kind.growth).item()  # in float32, as GradScaler's
            moved = min(grown, 2.0**self.kind.high)  # it binds before float32 does
        self.scale, self.growth_count = max(moved, 2.0**self.kind.low), int(tracker.item())
