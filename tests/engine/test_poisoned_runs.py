"""Law 10 on runs that go wrong after some completed attempts: reason, place by name, and whether a smaller scale helps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import optimizer_state, same
from truestep import LossScale, Reason

NAN, INF = math.nan, math.inf
ALL = ("fp32", "bf16", "fp16")
NARROW = ("bf16-master", "fp16-master", "bf16-pure")
Microbatch = dict[str, Any]


class Middle(nn.Module):
    """Computes `function` of what it is given, times a gain of 1 that a poison raises, and goes wrong where that does."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.gain = function, 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x * self.gain)


class Net(nn.Module):
    """Two inputs, BatchNorm's buffers and dropout's draws around a module in the middle."""

    def __init__(self, middle: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.left, self.right, self.norm = nn.Linear(4, 8), nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.drop, self.middle, self.head = nn.Dropout(0.2), Middle(middle), nn.Linear(8, 3)
        self.table = nn.Embedding(3, 8)

    def forward(self, x: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        h = self.drop(self.norm(self.left(x[0]) + self.right(x[1])))
        return self.head(self.middle(h) + 0 * self.table(y))


def cross_entropy(model: nn.Module, data: Microbatch) -> Tensor:
    return nn.functional.cross_entropy(model(data["x"], data["y"]), data["y"])


def root(model: nn.Module, data: Microbatch) -> Tensor:
    return model(data["x"], data["y"]).float().square().sum(1).sqrt().mean()


def log_of_share(model: nn.Module, data: Microbatch) -> Tensor:
    return -(model(data["x"], data["y"]).float().square() + model.floor).log().mean()


def masked_exp(model: nn.Module, data: Microbatch) -> Tensor:
    """Right in its value, for what overflows is masked; not in its gradient, which is 0 * infinity."""
    out = model(data["x"], data["y"]).float()
    return torch.where(out < 50, out.exp(), out).mean()


def window(seed: int) -> list[Microbatch]:
    draw = torch.Generator().manual_seed(seed)

    def microbatch(n: int) -> Microbatch:
        x = tuple(torch.randn(n, 4, generator=draw) for _ in range(2))
        return {"x": x, "y": torch.randint(0, 3, (n,), generator=draw)}

    return [microbatch(n) for n in (4, 3, 5)]


def attention(x: Tensor) -> Tensor:
    logits = x @ x.T
    return logits.softmax(-1) @ x


def standardized(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0)


def plain(x: Tensor) -> Tensor:
    return x.tanh()


def masked_by(value: float) -> Callable[[Tensor], Tensor]:
    """Attention that may not look at what is at most `value` below 0; a gain of 0 leaves it nothing to look at."""
    return lambda x: torch.where(x != 0, x, value).softmax(-1)


@dataclass(frozen=True, kw_only=True)
class Poison:
    """One thing that goes wrong, and what has to be said of it."""

    name: str
    poison: Callable[[Net, list[Microbatch]], None]
    reason: Reason
    place: str
    says: str
    policies: tuple[str, ...] = (*ALL, *NARROW)
    middle: Callable[[Tensor], Tensor] = plain
    loss: Callable[..., Tensor] = cross_entropy
    scale: float = 1024.0
    curable: bool = False


def into_input(index: int, side: int, value: float) -> Callable[[Net, list[Microbatch]], None]:
    return lambda model, window: window[index]["x"][side][1:2, 2:3].fill_(value)


def into(name: str, value: float) -> Callable[[Net, list[Microbatch]], None]:
    def poison(model: Net, window: list[Microbatch]) -> None:
        with torch.no_grad():
            model.state_dict()[name].view(-1)[1] = value

    return poison


def gain(value: float) -> Callable[[Net, list[Microbatch]], None]:
    return lambda model, window: setattr(model.middle, "gain", value)


def silent_head(model: Net, window: list[Microbatch]) -> None:
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()


def constant_rows(model: Net, window: list[Microbatch]) -> None:
    model.eval()  # BatchNorm would pull equal rows to 0 itself, and dropout make them differ
    for side in window[1]["x"]:
        side[:] = side[0]


POISONS = [
    Poison(
        name="nan in an input", poison=into_input(1, 0, NAN), reason=Reason.INPUT, place="microbatch 1['x'][0]", says="holds nan"
    ),
    Poison(
        name="inf in an input", poison=into_input(2, 1, INF), reason=Reason.INPUT, place="microbatch 2['x'][1]", says="holds inf"
    ),
    Poison(
        name="-inf in an input",
        poison=into_input(0, 1, -INF),
        reason=Reason.INPUT,
        place="microbatch 0['x'][1]",
        says="holds -inf",
    ),
    Poison(
        name="nan in a weight", poison=into("right.weight", NAN), reason=Reason.PARAMETER, place="right.weight", says="holds nan"
    ),
    Poison(name="inf in a bias", poison=into("head.bias", INF), reason=Reason.PARAMETER, place="head.bias", says="holds inf"),
    Poison(
        name="nan in a buffer",
        poison=lambda model, window: (model.eval(), into("norm.running_mean", NAN)(model, window)),
        reason=Reason.PARAMETER,
        place="norm.running_mean",
        says="holds nan",
    ),
    Poison(
        name="exp beyond every format",
        poison=gain(1000.0),
        middle=torch.exp,
        reason=Reason.FORWARD,
        place="middle",
        says=r"exp in Middle 'middle' \(test_poisoned_runs.py:\d+\) made inf of finite numbers",
    ),
    Poison(
        name="exp beyond float16",
        poison=gain(12.0),
        middle=lambda x: x.clamp(0, 13).to(torch.float16 if torch.is_autocast_enabled("cpu") else torch.float32).exp().float(),
        policies=("fp16", "fp16-master"),
        reason=Reason.FORWARD,
        place="middle",
        says="in float32: exp in Middle 'middle'",
    ),
    Poison(
        name="attention logits beyond 65504",
        poison=gain(2000.0),
        middle=attention,
        policies=("fp16", "fp16-master"),
        reason=Reason.FORWARD,
        place="middle",
        says="in float32: mm in Middle 'middle'",
    ),
    Poison(
        name="a fully masked row",
        poison=gain(0.0),
        middle=masked_by(-INF),
        reason=Reason.LOSS,
        place="middle",
        says="softmax in Middle 'middle' .* made nan of an infinity .* put -inf there",
    ),
    Poison(
        name="0/0 of a constant input",
        poison=constant_rows,
        middle=standardized,
        reason=Reason.LOSS,
        place="middle",
        says="div in Middle 'middle' .* made (nan|-?inf) of finite numbers",
    ),
    Poison(
        name="log(0) in the loss",
        poison=lambda model, window: (silent_head(model, window), setattr(model, "floor", 0.0)),
        loss=log_of_share,
        reason=Reason.LOSS,
        place="the loss",
        says=r"is inf: log in the loss \(test_poisoned_runs.py:\d+\) made -inf",
    ),
    Poison(
        name="sqrt at 0, finite loss",
        poison=silent_head,
        loss=root,
        reason=Reason.UNDEFINED,
        place="left.weight",
        says=r"SqrtBackward0, the backward of sqrt in the loss \(test_poisoned_runs.py:\d+\), made \w+ of finite numbers",
    ),
    Poison(
        name="a masked overflow, finite loss",
        poison=into("head.bias", 100.0),
        loss=masked_exp,
        reason=Reason.FORWARD,
        place="the loss",
        says="exp in the loss .* made inf of finite numbers; the loss of microbatch 0 is finite",
    ),
    Poison(
        name="a scale too large",
        poison=lambda model, window: None,
        policies=("fp16", "fp16-master"),
        scale=2.0**40,
        reason=Reason.BACKWARD,
        place="left.weight",
        says="finite at a loss scale of",
        curable=True,
    ),
]
TABLE = [pytest.param(poison, policy, id=f"{poison.name}, {policy}") for poison in POISONS for policy in poison.policies]


def everything(update: truestep.Update) -> list[Tensor]:
    held = (*update.model.state_dict().values(), *update.weights().values())
    return [tensor.detach().clone() for tensor in held] + optimizer_state(update.optimizers[0])


@pytest.mark.parametrize(("poison", "policy"), TABLE)
def test_a_poisoned_run_says_what_poisoned_it_and_goes_on(poison: Poison, policy: str) -> None:
    torch.manual_seed(0)
    model = Net(poison.middle)
    model.floor = 0.1
    adamw = (lambda params: torch.optim.AdamW(params, lr=1e-3)) if policy in NARROW else torch.optim.AdamW(model.parameters())
    start = LossScale.dynamic(1024.0) if "fp16" in policy else None
    update = truestep.Update(model, adamw, loss=poison.loss, policy=policy, scale=start)
    assert all(update(window(seed)).completed for seed in range(3))
    if start is not None:
        update.scale = LossScale.dynamic(poison.scale)
    bad = window(9)
    with update.in_float32():
        clean = {name: value.clone() for name, value in model.state_dict().items()}
        poison.poison(model, bad)
    before, scale = everything(update), update.scale
    skip = update(bad).skip
    assert skip is not None
    assert (skip.reason, skip.place, skip.curable) == (poison.reason, poison.place, poison.curable), skip.detail
    assert re.search(poison.says, skip.detail), skip.detail
    assert update.scale == (scale.after(finite=False) if poison.curable else scale)
    assert same(before, everything(update))
    with update.in_float32():
        model.load_state_dict(clean)
    model.train()
    model.middle.gain, model.floor = 1.0, 0.1
    update.scale = scale if start is None else start
    assert update(window(10)).completed


@pytest.mark.parametrize("seed", range(6))
def test_one_bad_number_anywhere_in_a_window_is_found(seed: int) -> None:
    torch.manual_seed(seed)
    model = Net(plain)
    update = truestep.Update(model, torch.optim.AdamW(model.parameters()), loss=cross_entropy, policy="bf16")
    assert update(window(0)).completed
    bad = window(1)
    index, side, column = (int(torch.randint(0, n, ())) for n in (3, 2, 4))
    row = int(torch.randint(0, len(bad[index]["y"]), ()))
    bad[index]["x"][side][row, column] = (NAN, INF, -INF)[seed % 3]
    skip = update(bad).skip
    assert (skip.reason, skip.place) == (Reason.INPUT, f"microbatch {index}['x'][{side}]")
    assert skip.detail.endswith(f"first at [{row}, {column}]")


def overshooting(rate: float, steps: int, policy: str) -> tuple[truestep.Update, list[truestep.Outcome]]:
    """A regression whose learning rate is too large: each update overshoots by a factor, until something overflows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=rate),
        loss=lambda model, x: (model(x).float() - 1).square().mean(),
        policy=policy,
        scale=LossScale.dynamic(1024.0) if policy == "fp16" else None,
    )
    x = torch.randn(8, 4)
    outcomes = [update([x])]
    while (outcomes[-1].completed or outcomes[-1].skip.curable) and len(outcomes) < steps:
        outcomes.append(update([x]))
    return update, outcomes


@pytest.mark.parametrize(("policy", "says"), [("fp32", "pow in the loss"), ("bf16", "pow in the loss"), ("fp16", "in float32: ")])
def test_a_learning_rate_that_is_too_large_ends_in_a_forward_overflow_with_huge_weights(policy: str, says: str) -> None:
    update, outcomes = overshooting(3.0, 400, policy)
    losses = [outcome.loss for outcome in outcomes[:-1] if outcome.completed]
    assert len(losses) >= 3
    assert losses[-1] > 1e4 * losses[0]
    skip = outcomes[-1].skip
    assert (skip.reason, skip.curable) == (Reason.FORWARD, False)
    assert says in skip.detail
    assert "holds a weight of" in skip.detail
    assert "learning rate" in skip.detail
    assert all(bool(p.isfinite().all()) for p in update.model.parameters())
    assert outcomes[-1].next_loss_scale == outcomes[-1].loss_scale


def test_a_learning_rate_that_makes_a_weight_infinite_in_the_step_is_a_parameter_in_the_next_attempt() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1, bias=False)
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=1e38), loss=lambda model, x: (1e2 * model(x) + 9).square().mean()
    )
    assert update([torch.ones(2, 4)]).completed
    skip = update([torch.ones(2, 4)]).skip
    assert (skip.reason, skip.place, skip.curable) == (Reason.PARAMETER, "weight", False)
    assert skip.detail == "it holds inf, first at [0, 0], since before this attempt"


@pytest.mark.parametrize("policy", ALL)
def test_a_gradient_that_fits_while_it_is_scaled_down_and_not_in_its_own_units_is_an_unscale_overflow(policy: str) -> None:
    model = nn.Linear(4, 1)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: (model(x).float() * 2.0**120 * (1.0 if len(x) == 2 else 2.0**10)).mean(),
        policy=policy,
        scale=LossScale.static(2.0**-120),
    )
    assert update([torch.ones(2, 4)]).completed
    skip = update([torch.ones(3, 4)]).skip
    assert (skip.reason, skip.place, skip.curable) == (Reason.UNSCALE, "weight", False)


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_a_true_gradient_beyond_its_format_is_a_backward_overflow_that_no_scale_cures(policy: str) -> None:
    model = nn.Linear(4, 1)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        loss=lambda model, x: (model(x) * 0 * 1e30 * 1e30).mean(),
        policy=policy,
    )
    skip = update([torch.ones(2, 4)]).skip
    assert (skip.reason, skip.place, skip.curable) == (Reason.BACKWARD, "weight", False)
    assert "no loss scale is at work" in skip.detail


def test_an_index_out_of_range_is_an_exception_and_no_skip() -> None:
    torch.manual_seed(0)
    model = Net(plain)
    update = truestep.Update(model, torch.optim.AdamW(model.parameters()), loss=cross_entropy)
    assert update(window(0)).completed
    before, counts, bad = everything(update), update.counts, window(1)
    bad[1]["y"][0] = 7
    with pytest.raises(IndexError):
        update(bad)
    assert update.counts == counts
    assert same(before, everything(update))
    assert update(window(1)).completed


def test_a_run_that_stays_poisoned_ends_with_outcome_and_diagnosis() -> None:
    torch.manual_seed(0)
    model = Net(torch.exp)
    update = truestep.Update(model, torch.optim.AdamW(model.parameters()), loss=cross_entropy, max_consecutive_skips=3)
    assert update(window(0)).completed
    model.middle.gain = 1000.0
    with pytest.raises(truestep.errors.SkipLimitError, match="exp in Middle 'middle'") as caught:
        for seed in range(10):
            update(window(seed))
    assert caught.value.outcome.counts.skipped_by_reason == {"forward overflow": 3}
    assert (caught.value.reason, caught.value.place) == ("forward overflow", "middle")
