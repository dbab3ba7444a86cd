"""A training loop as people write it by hand, with one deliberate mistake: what the engine refuses to do, to be raced."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_

from truestep.engine.clip import ClipNorm
from truestep.engine.gradients import exact_norm
from truestep.engine.host import to_host
from truestep.engine.outcome import Outcome, Reason, Skip, demand_progress
from truestep.engine.plan import Measure, total_of
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.errors import LossError, OptimizerError
from truestep.run.faults import FAULTS, LABEL, NONE


class HandWritten(Update[Any]):
    """An update whose windows run through autocast, torch.amp.GradScaler and a plain optimizer, with the fault of that name.

    Model, optimizer, schedule, counts and outcomes are those of `Update`, so that a run cannot tell the two apart. Its laws are
    not: a skip leaves buffers as the forward wrote them, no reason is looked for, and the weight is held against nothing. With
    the fault "none", in float32 and without a clip, the weights are those of `Update` bit for bit.
    """

    def __init__(self, model: torch.nn.Module, optimizer: Any, *, fault: str, **asked: Any) -> None:
        super().__init__(model, optimizer, check_weight=False, **asked)
        if self.plan.evaluates_again or len(self.optimizers) != 1:
            raise OptimizerError("the hand-written loop steps one optimizer, once", hint="leave fault= out")
        self._fault = fault
        self._scaler = self._new_scaler()

    def __call__(self, window: list[Any]) -> Outcome:
        """Attempt one update as the loop does it, and say what happened."""
        start, rates, measures = time.perf_counter(), self.plan.learning_rates(), self.plan.measure(window)
        scale_before = self._scaler.get_scale()
        with self.plan.policy.arithmetic(self.plan.device):
            losses = self._accumulate(window, _weights(measures))
            norm, clipped = self._clipped()
            has_stepped = self._stepped()
        skip = None if has_stepped else self._skip(losses)
        self._next_scaler()
        before = self.counts
        self.counts = before.after(
            reason=None if skip is None else skip.reason,
            examples=sum(measure.examples for measure in measures),
            tokens=sum(measure.tokens or 0 for measure in measures) if self.plan.tokens else None,
        )
        self._tick(before, window, skip)
        outcome = Outcome(
            policy=self.plan.policy.name,
            skip=skip,
            loss=math.fsum(losses) if all(map(math.isfinite, losses)) else sum(losses),
            lr=tuple(to_host(rates)),
            grad_norm=norm if skip is None else None,
            grad_norm_clipped=clipped if skip is None else None,
            loss_scale=scale_before,
            next_loss_scale=self._scaler.get_scale(),
            weight=total_of(measures),
            weight_check=f"none: a hand-written loop, {LABEL} {self._fault} ({FAULTS[self._fault].mistake})",
            microbatches=len(window),
            examples=sum(measure.examples for measure in measures),
            tokens=sum(measure.tokens or 0 for measure in measures) if self.plan.tokens else None,
            seconds=time.perf_counter() - start,
            counts=self.counts,
        )
        demand_progress(outcome, self.plan.max_consecutive_skips)
        return outcome

    def _accumulate(self, window: list[Any], weights: Sequence[float]) -> list[float]:
        """The backwards of a window; each loss at its share of the window's, whatever the loop makes of it."""
        (optimizer,), policy, total = self.optimizers, self.plan.policy, sum(weights)
        parts: list[Tensor] = []
        optimizer.zero_grad()
        for microbatch, weight in zip(window, weights, strict=True):
            if self._fault == "zero-every-microbatch":
                optimizer.zero_grad()
            with policy.autocast(self.plan.device):
                loss = self.plan.loss(self.plan.model, microbatch)
            if not isinstance(loss, Tensor):
                raise LossError("the hand-written loop takes a loss of one term", hint="leave fault= out, or return the sum")
            share = weight / total if total else 0.0
            factor = {"loss-not-divided": 1.0, "mean-of-means": 1 / len(window)}.get(self._fault, share)
            self._scaler.scale(loss * factor).backward()  # type: ignore[no-untyped-call]  # torch's stubs lack it
            parts.append(loss.detach() * share)
        return [part.item() for part in parts]

    def _clipped(self) -> tuple[float, float]:
        """The gradient's norm before clipping and as it arrives at the optimizer, in original units."""
        (optimizer,), clip = self.optimizers, self.plan.clip
        held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients: list[Tensor] = [p.grad for p in held]
        unit = 1.0 / self._scaler.get_scale()
        norm = exact_norm(gradients) * unit
        if isinstance(clip, ClipNorm):
            if self._fault != "clip-before-unscale":
                self._scaler.unscale_(optimizer)
                unit = 1.0
            clip_grad_norm_(held, clip.limit)
        return norm, exact_norm(gradients) * unit

    def _stepped(self) -> bool:
        """Let GradScaler step the optimizer, or leave that out; whether it did, as the optimizer itself saw it."""
        steps: list[bool] = []

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            withheld = getattr(optimizer, "found_inf", None)  # a fused one is called in any case, and told so
            steps.append(withheld is None or not bool(withheld))

        handle = self.optimizers[0].register_step_post_hook(after)
        try:
            self._scaler.step(self.optimizers[0])
        finally:
            handle.remove()
        return any(steps)

    def _skip(self, losses: Sequence[float]) -> Skip:
        """All that such a loop can tell: the loss, or else the gradient, was not finite.

        Of a loss in a narrow format it cannot tell whether float32 would have held it: nobody has looked.
        """
        lost = Reason.FORWARD if self.plan.policy.low else Reason.LOSS
        reason = Reason.BACKWARD if all(map(math.isfinite, losses)) else lost
        detail = "GradScaler found an element of the gradient that is not finite, and left the optimizer's step out"
        return Skip(reason=reason, place=None, detail=detail, curable=self.scale.kind == "dynamic")

    def _next_scaler(self) -> None:
        if self._fault == "never-update" or self.scale.kind == "static":
            self._scaler = self._new_scaler()
        else:
            self._scaler.update()

    def _new_scaler(self) -> GradScaler:
        scale: LossScale = self.scale
        return GradScaler(
            self.plan.device.type,
            enabled=scale.kind != "none",
            init_scale=scale.value,
            growth_factor=scale.growth,
            backoff_factor=scale.backoff,
            growth_interval=scale.interval,
        )

    def _tick(self, before: Any, window: list[Any], skip: Skip | None) -> None:
        ends_epoch = self._schedule.ends_epoch(window)
        ticks = self._schedule.clock(before, self.counts, ends_epoch=ends_epoch)
        if self._fault == "scheduler-on-skip" and self.schedulers:
            ticks = 1
        self._schedule.tick(ticks, has_stepped=skip is None)
        self.counts = self.counts.ticked(ticks)


def _weights(measures: Sequence[Measure]) -> list[float]:
    """Of each microbatch of a window, as one number."""
    weights = [measure.weight for measure in measures]
    if not all(isinstance(weight, float | int) for weight in weights):
        raise LossError("the hand-written loop takes a loss of one term", hint=f"leave fault={NONE} and its like out")
    return [float(weight) for weight in weights if isinstance(weight, float | int)]
