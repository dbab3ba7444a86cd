"""Which module, or loss, makes a microbatch something else than rows of the full batch: found by running both and comparing.

The joined forward and the split ones run in float32 from the same state. The first module, in the order in which calls end,
whose inputs agree while its outputs differ is the one. Whether it draws at random is seen by running it from another random
state, and not by its type: so a module that nobody knows is found as well as a BatchNorm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from truestep.engine.randomness import TorchRandomState, own_random_state
from truestep.pages.words import significant
from truestep.probe.buffers import Buffers
from truestep.verification.calls import Call, Calls, agree, alike, watched

Kind = Literal["batch-norm", "dropout", "loss", "other"]


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """Why accumulation is not the full batch here, whatever the weights and the precision."""

    module: str | None
    """Its path in the model; "" for the model's own code, None where it is the loss."""
    kind: Kind
    """ "dropout" for whatever draws at random."""
    sentence: str


def find(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    window: Sequence[Any],
    joined: Any,
    weights: Sequence[float],
) -> Coupling | None:
    """The first module whose outputs depend on how the batch is split, or else the loss; None where nothing does.

    Costs the forwards of the window twice and once more. Buffers, training modes and torch's random state are put back, and no
    hook is left. What has no row for each example, such as a packed sequence, is passed over.

    Args:
        model: In the modes that it trains in.
        loss: The mean loss of a microbatch, as Update takes it.
        window: The microbatches.
        joined: The same examples as one microbatch.
        weights: What each microbatch's loss is a mean over.
    """
    total = sum(weights)
    if total <= 0:
        return None
    shares = [weight / total for weight in weights]
    state = TorchRandomState.now(_device(model))
    with _undisturbed(model, state) as again:
        whole, value = _forward(model, loss, joined)
        again()
        splits = []
        for microbatch in window:  # one after another the draws of a first dropout would be those of the full batch
            state.restore()
            splits.append(_forward(model, loss, microbatch))
        again()
        torch.rand(1, device=_device(model))  # another random state
        other, drawn = _forward(model, loss, joined)
    culprit = _first(whole, [calls for calls, _ in splits], shares)
    if culprit is not None:
        return _of_module(model, culprit, whole, other)
    values = [each for _, each in splits]
    if agree((value,), [(each,) for each in values], shares) is not False:
        return None
    if not alike(value, drawn):
        return Coupling(kind="dropout", module=None, sentence="the loss draws at random: a split batch draws other numbers")
    mean = sum(share * float(each) for share, each in zip(shares, values, strict=True))
    return Coupling(
        kind="loss",
        module=None,
        sentence=f"no module couples the examples, but the loss does: {significant(float(value), 5)} over the full batch, and"
        f" {significant(mean, 5)} as the weighted mean of the microbatches', as contrastive losses have it, or those that centre"
        " on their batch; or the weights are not what it is a mean over",
    )


def _first(whole: Calls, splits: list[Calls], shares: Sequence[float]) -> Call | None:
    """The first call whose inputs agree while its outputs differ."""
    split_calls = [calls.by_key() for calls in splits]
    for call in whole.ended:
        same = [calls[call.key] for calls in split_calls if call.key in calls]
        if len(same) < len(splits) or agree(call.put_out, [each.put_out for each in same], shares) is not False:
            continue
        if agree(call.given, [each.given for each in same], shares) is True:
            return call
    return None


def _of_module(model: nn.Module, call: Call, whole: Calls, other: Calls) -> Coupling:
    module = model.get_submodule(call.module)
    name = f"{call.module} ({type(module).__name__})" if call.module else f"the forward of {type(module).__name__}"
    again = other.by_key().get(call.key)
    if again is not None and not _same(call.put_out, again.put_out) and _same(call.given, again.given):
        return Coupling(
            module=call.module,
            kind="dropout",
            sentence=f"{name} draws at random: the microbatches draw other numbers than the full batch does, and each update is"
            " one of many that are equally right. For a check, put it in evaluation or its rate to 0",
        )
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return Coupling(
            module=call.module,
            kind="batch-norm",
            sentence=f"{name} normalises each microbatch by its own mean and variance, and the full batch by its own:"
            " accumulation is another update here, whatever the weights. GroupNorm or LayerNorm do not look across examples",
        )
    if all(value.dim() == 0 for value in call.put_out):
        return Coupling(
            module=call.module,
            kind="loss",
            sentence=f"{name} is a loss that couples the examples: over the full batch it is not the weighted mean of what it is"
            " over the microbatches; or the weights are not what it is a mean over",
        )
    return Coupling(
        module=call.module,
        kind="other",
        sentence=f"{name} puts out other rows for the same rows in other company: it looks across the batch, or keeps something"
        " from one forward to the next. Accumulation is another update here, whatever the weights",
    )


def _same(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(left) == len(right) and all(map(alike, left, right))


def _forward(model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], microbatch: Any) -> tuple[Calls, Tensor]:
    with torch.enable_grad(), watched(model) as calls:
        return calls, loss(model, microbatch).detach().clone()


@contextmanager
def _undisturbed(model: nn.Module, state: TorchRandomState) -> Iterator[Callable[[], None]]:
    """What forwards write is put back, at the end and whenever it is called: buffers, training modes, torch's random state."""
    device = _device(model)
    modes = [(module, module.training) for module in model.modules()]
    buffers = Buffers(model)
    buffers.keep()

    def again() -> None:
        buffers.restore()
        state.restore()
        for module, training in modes:
            module.training = training

    with own_random_state(device), torch.autocast(device.type, enabled=False):
        try:
            yield again
        finally:
            again()


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
