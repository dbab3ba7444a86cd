"""What was allocated and freed during an attempt, and what follows from it: the peak, and what lay there by category. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal, NamedTuple, get_args

Phase = Literal["forward", "backward", "finite check", "step"]
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True, kw_only=True)
class Categories:
    """Bytes by what they are for; each storage counts once, whoever shares it."""

    weights: int = 0
    """The model's parameters, as the policy stores them, frozen ones and tied ones (once) included."""
    low_copies: int = 0
    """Weights that autocast has cast."""
    gradients: int = 0
    """Of parameters, as the backward leaves them."""
    accumulators: int = 0
    """Float32 sums of narrow gradients, and narrow gradients in float32 from the finite check on."""
    masters: int = 0
    """Float32 weights beside narrow ones."""
    moments: int = 0
    """All that the optimizers keep: moments and their counts."""
    activations: int = 0
    """Saved for backward, and neither a weight, a cast of one, a buffer, nor the batch."""
    buffers: int = 0
    batch: int = 0
    """The window's microbatches."""
    temporaries: int = 0
    """All else: values that no backward needs, what a checkpointed layer computes again, gradients of activations, copies in the
    finite check and the step."""

    workspaces: int = 0
    """Inside of kernels: measured one operation at a time for a prediction. In a measurement the allocator alone knows them."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(asdict(self).values())


CATEGORIES = tuple(field.name for field in fields(Categories))
STAYING = ("weights", "masters", "moments", "buffers", "batch")


class Event(NamedTuple):
    """One storage came, with its bytes, or went, with their negative."""

    storage: int
    size_bytes: int
    phase: Phase
    microbatch: int


@dataclass(frozen=True, kw_only=True)
class Account:
    """One attempt's memory by its live storages."""

    peak_bytes: int
    peak_phase: Phase
    peak_microbatch: int
    """Counted from 0."""
    peak: Categories
    """What lay there at the peak; the sum is `peak_bytes`."""
    each: Categories
    """Each category by itself: what stays as it stands at the end, what comes and goes at its highest, not all at one time."""
    start_bytes: int
    """What was there at the start."""
    phase_bytes: Mapping[str, int]
    """The highest point of each phase."""
    saved_batch_bytes: int
    """Of the batch, what was saved for backward."""
    saved_casts_bytes: int
    """Of the weights that autocast has cast, what was saved for backward."""


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """One attempt's memory, by its live storages and by the device's allocator."""

    account: Account
    allocated_bytes: int | None
    """The peak by the allocator, workspaces inside of kernels included; None where nothing was allocated: a prediction."""
    allocated_phase: Phase | None

    @property
    def peak_bytes(self) -> int:
        """The allocator's word where there is one, else the live storages'."""
        return self.account.peak_bytes if self.allocated_bytes is None else self.allocated_bytes

    @property
    def peak_phase(self) -> Phase:
        """When that was."""
        return self.account.peak_phase if self.allocated_phase is None else self.allocated_phase


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """The first attempt of an update, in which the optimizer's state appears, and one after it."""

    first: Attempted
    later: Attempted

    @property
    def peak_bytes(self) -> int:
        """The higher of both."""
        return max(self.first.peak_bytes, self.later.peak_bytes)

    @property
    def each(self) -> Categories:
        """By category, of a later attempt: the first begins without the optimizer's state."""
        return self.later.account.each


def account(events: Sequence[Event], kinds: Mapping[int, str], *, start: int, saved: Mapping[str, int]) -> Account:
    """The account of `events`, the first `start` of which are what was there before; an untold kind is a temporary.

    >>> events = [Event(0, 8, "forward", 0), Event(1, 4, "forward", 0), Event(1, -4, "backward", 0), Event(2, 2, "step", 0)]
    >>> found = account(events, {0: "weights"}, start=1, saved={})
    >>> found.peak_bytes, found.peak_phase, found.peak.temporaries, found.phase_bytes["step"]
    (12, 'forward', 4, 10)
    """
    total, top = 0, (0, 0)
    held, highest = dict.fromkeys(CATEGORIES, 0), dict.fromkeys(CATEGORIES, 0)
    phases: dict[str, int] = {}
    for place, event in enumerate(events):
        kind = kinds.get(event.storage, "temporaries")
        total += event.size_bytes
        held[kind] += event.size_bytes
        highest[kind] = max(highest[kind], held[kind])
        phases[event.phase] = max(phases.get(event.phase, 0), total)
        top = max(top, (total, -place))  # the first of equals
    assert events, "weights are there at the start"
    last = -top[1]
    return Account(
        peak_bytes=top[0],
        peak_phase=events[last].phase,
        peak_microbatch=events[last].microbatch,
        peak=_sums(events[: last + 1], kinds),
        each=Categories(**{kind: held[kind] if kind in STAYING else highest[kind] for kind in CATEGORIES}),
        start_bytes=sum(event.size_bytes for event in events[:start]),
        phase_bytes=phases,
        saved_batch_bytes=saved.get("batch", 0),
        saved_casts_bytes=saved.get("low_copies", 0),
    )


def _sums(events: Iterable[Event], kinds: Mapping[int, str]) -> Categories:
    held = dict.fromkeys(CATEGORIES, 0)
    for event in events:
        held[kinds.get(event.storage, "temporaries")] += event.size_bytes
    return Categories(**held)
