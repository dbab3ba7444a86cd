"""Options of a task's optimizer, set from outside, are set in every group, or refused with what there is."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from truestep.errors import UsageError
from truestep.run import Settings, train
from truestep.run.options import Options, demand_options, with_options

CPU = Settings(device="cpu")


def adamw(**settings: Any) -> torch.optim.Optimizer:
    parameters = [Parameter(torch.ones(2)), Parameter(torch.ones(3))]
    return torch.optim.AdamW([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.5}], **settings)


def test_every_group_gets_the_value_as_the_kind_of_thing_that_it_was() -> None:
    asked: Options = (("amsgrad", True), ("betas", (0.5, 0.9)), ("lr", 0.25), ("weight_decay", 0.0))
    for group in with_options(adamw(), asked).param_groups:
        assert {name: group[name] for name, _ in asked} == dict(asked)
    (group,) = with_options(torch.optim.LBFGS([Parameter(torch.ones(1))]), (("history_size", 3.0),)).param_groups
    assert type(group["history_size"]) is int


def test_a_learning_rate_that_is_a_tensor_stays_one() -> None:
    optimizer = torch.optim.SGD([Parameter(torch.ones(1))], lr=torch.tensor(0.1))
    rate = with_options(optimizer, (("lr", 0.5),)).param_groups[0]["lr"]
    assert torch.equal(rate, torch.tensor(0.5))


def test_a_run_with_an_option_is_the_run_of_a_task_that_says_it_itself(line_with: Any) -> None:
    built_in = line_with(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.5))
    ours = train(line_with(), replace(CPU, optimizer=(("lr", 0.02), ("momentum", 0.5))), seed=3)
    theirs = train(built_in, CPU, seed=3)
    assert ours.weights_digest == theirs.weights_digest
    assert ours.weights_digest != train(line_with(), CPU, seed=3).weights_digest


def test_a_schedule_starts_from_the_rate_that_was_set(line_with: Any) -> None:
    schedule = {"scheduler": lambda optimizer, ticks: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: 0.5**tick)}
    seen: list[float] = []
    train(
        line_with(**schedule),
        replace(CPU, budget_attempts=3, optimizer=(("lr", 0.08),)),
        seed=3,
        progress=lambda made: seen.extend(made.outcome.lr),
    )
    assert seen == [0.08, 0.04, 0.02]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((("rate", 0.1),), "no option rate"),
        ((("params", 0.1),), "no option params"),
        ((("fused", True),), "no option fused"),
        ((("betas", 0.9),), "the option betas is like"),
        ((("betas", (0.9, 0.9, 0.9)),), "the option betas is like"),
        ((("lr", True),), "the option lr is like"),
        ((("lr", (0.1, 0.2)),), "the option lr is like"),
        ((("amsgrad", 1.0),), "the option amsgrad is true or false"),
        ((("lr", float("nan")),), "lr is nan"),
        ((("lr", -1.0),), "AdamW refuses the options: Invalid learning rate"),
        ((("betas", (0.9, 1.5)),), "AdamW refuses the options: Invalid beta"),
    ],
)
def test_what_an_option_cannot_be_is_refused(options: Options, named: str) -> None:
    with pytest.raises(UsageError, match=named) as caught:
        with_options(adamw(), options)
    assert caught.value.hint


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="rate") as caught:
        with_options(adamw(), (("rate", 0.1),))
    assert caught.value.hint == "options there are: amsgrad, betas, decoupled_weight_decay, eps, lr, maximize, weight_decay"


def test_options_are_tried_before_any_run_and_draw_nothing(line_with: Any) -> None:
    state = torch.get_rng_state()
    demand_options(line_with(), (("lr", 0.5),))
    with pytest.raises(UsageError, match="no option betas"):
        demand_options(line_with(), (("betas", (0.5, 0.5)),))
    assert torch.equal(torch.get_rng_state(), state)
