"""The bytes of a parameter by formula: what each policy stores, what it copies for a while, and what shards divide. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

from truestep.engine.policy import Policy
from truestep.engine.pure import Pure
from truestep.errors import UsageError
from truestep.footprint.optimizers import OptimizerBytes, optimizer_bytes
from truestep.footprint.sizes import both, parameters_of

Shard = Literal["states", "gradients", "parameters"]
SHARDS: tuple[Shard, ...] = get_args(Shard)
"""What is divided among the shards, each with all before it: ZeRO stages 1, 2 and 3."""


@dataclass(frozen=True, kw_only=True)
class PerParameter:
    """Bytes that are held for one parameter, by category."""

    weights: float
    gradients: float
    accumulators: float
    """Float32 sums of narrow gradients over the microbatches, in place of the gradients."""
    masters: float
    moments: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.weights + self.gradients + self.accumulators + self.masters + self.moments

    def sharded(self, shard: Shard | None, shards: int) -> PerParameter:
        """What one of `shards` holds: masters and moments divided, then gradients too, then weights too; None: nothing."""
        stage = 0 if shard is None else SHARDS.index(shard) + 1
        divisors = {"masters": 1, "moments": 1, "gradients": 2, "accumulators": 2, "weights": 3}
        return PerParameter(**{name: size / (shards if stage >= divisors[name] else 1) for name, size in asdict(self).items()})


@dataclass(frozen=True, kw_only=True)
class Transient:
    """A copy that is there for a while, in bytes for one parameter that it is of."""

    name: str
    bytes_per_parameter: int
    when: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One way to divide a training among shards, and what one shard then holds."""

    shard: Shard | None
    """None: nothing is divided."""
    per_parameter: PerParameter
    total_bytes: float

    @property
    def name(self) -> str:
        """The stage in words, with ZeRO's number for it."""
        return "nothing" if self.shard is None else f"{self.shard} (ZeRO {SHARDS.index(self.shard) + 1})"


@dataclass(frozen=True, kw_only=True)
class Formula:
    """What training takes for its parameters alone: no activations, no batch, no buffers.

    `str()` is the report, `record()` the same for JSON.
    """

    parameters: int
    policy: str
    optimizer: str
    microbatches: int
    shards: int
    stages: tuple[Stage, ...]
    transients: tuple[Transient, ...]
    notes: tuple[str, ...]

    @property
    def total_bytes(self) -> float:
        """What one shard holds in the last of the stages."""
        return self.stages[-1].total_bytes

    def record(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"schema": 1, "kind": "formula", **asdict(self)}

    def __str__(self) -> str:
        """The report as plain text."""
        lines = [f"{self.parameters:,} parameters, {self.policy}, {self.optimizer}: {both(self.total_bytes)}"]
        for stage in self.stages:
            each = {name: size for name, size in asdict(stage.per_parameter).items() if size}
            sums = " + ".join(f"{size:g} {name}" for name, size in each.items())
            lines.append(f"  divided: {stage.name}: {both(stage.total_bytes)}, {stage.per_parameter.total:g} bytes = {sums}")
        lines += [f"  for a while: {each.bytes_per_parameter} bytes, {each.name}, {each.when}" for each in self.transients]
        return "\n".join([*lines, *self.notes])


def formula(
    parameters: float | str,
    *,
    optimizer: str,
    policy: str | Policy,
    shards: int = 1,
    shard: Shard | None = None,
    microbatches: int = 1,
) -> Formula:
    """The bytes of `parameters` parameters, all of them trained and all narrowed where the policy narrows.

    Without `shard`, and with several shards, every stage is told.

    Raises:
        UsageError, PolicyError: no count, policy, optimizer or division.

    >>> formula("1.5B", optimizer="adam", policy="fp16-master").total_bytes
    24000000000.0
    """
    count, policy, kind = parameters_of(parameters), Policy.named(policy), optimizer_bytes(optimizer)
    for name, number in (("shards", shards), ("microbatches", microbatches)):
        if number < 1:
            raise UsageError(f"{name} is {number}", hint=f"{name} is 1 or more", field=name, value=number)
    if shard is not None and shard not in SHARDS:
        raise UsageError(f"nothing called {shard!r} can be divided", hint=f"choose one of: {', '.join(SHARDS)}", asked=shard)
    if shard is not None and shards == 1:
        raise UsageError(f"{shard} are to be divided among 1 shard", hint="say among how many: shards=64")
    whole = per_parameter(policy, kind, microbatches=microbatches)
    chosen: tuple[Shard | None, ...] = (None,) if shards == 1 else (None, *SHARDS) if shard is None else (None, shard)
    held = [(each, whole.sharded(each, shards)) for each in chosen]
    return Formula(
        parameters=count,
        policy=policy.name,
        optimizer=kind.name,
        microbatches=microbatches,
        shards=shards,
        stages=tuple(Stage(shard=each, per_parameter=size, total_bytes=size.total * count) for each, size in held),
        transients=transients(policy, kind, microbatches=microbatches),
        notes=_notes(policy, kind, shards=shards),
    )


def per_parameter(policy: Policy, optimizer: OptimizerBytes, *, microbatches: int) -> PerParameter:
    """What stays for a parameter from the end of a window's last backward to the step, as the engine stores it.

    >>> per_parameter(Policy.named("bf16-master"), optimizer_bytes("adamw"), microbatches=4).total
    18
    """
    width = policy.weights.itemsize
    narrow, has_masters = width < 4, width < 4 and policy.rounding == "nearest"
    sums = narrow and microbatches > 1
    return PerParameter(
        weights=width,
        gradients=0 if sums else width,
        accumulators=4 if sums else 0,
        masters=4 if has_masters else 0,
        moments=optimizer.moments * width // 4 if narrow and not has_masters else optimizer.moments,
    )


def transients(policy: Policy, optimizer: OptimizerBytes, *, microbatches: int) -> tuple[Transient, ...]:
    """The copies for a while, in the order of an attempt."""
    width, found = policy.weights.itemsize, []
    narrow, has_masters = width < 4, width < 4 and policy.rounding == "nearest"

    def add(size: int, name: str, when: str) -> None:
        found.append(Transient(name=name, bytes_per_parameter=size, when=when))

    if policy.low and not narrow:
        low = str(policy.compute).removeprefix("torch.")
        add(2, f"the weight cast to {low} by autocast", "from its use in a forward to its last use in the backward")
    if narrow and microbatches == 1:
        add(4, "the gradient in float32, in place of the narrow one", "from the finite check to the end of the step")
    if narrow and not has_masters:
        add(4 + optimizer.moments, f"weights and moments in float32, of {Pure.PORTION:,} parameters at a time", "in the step")
    if optimizer.foreach:
        add(optimizer.foreach, "the optimizer's own copies, where it is foreach", "in the step")
    kept = 4 + width if has_masters else width
    add(kept, "the weights, to be put back if the step fails", "in an update's first step")
    return tuple(found)


def _notes(policy: Policy, optimizer: OptimizerBytes, *, shards: int) -> tuple[str, ...]:
    notes = [] if optimizer.note is None else [f"{optimizer.name}: {optimizer.note}"]
    if policy.low and policy.weights is torch.float32:
        notes.append("Autocast does not halve memory: weights, gradients and moments stay float32. What shrinks is activations.")
    if policy.weights is not torch.float32:
        notes.append("Normalization layers keep float32 weights and gradients in any policy.")
    if shards > 1:
        notes.append("The division is arithmetic: this engine trains in one process. Copies for a while are not in the totals.")
    notes.append("Activations, buffers, the batch and workspaces are not in it: name a task to have them.")
    return tuple(notes)
