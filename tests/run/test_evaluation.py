"""Quality is judged in one reference precision, and training notices nothing of it."""

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from truestep.errors import TaskError
from truestep.run.evaluation import evaluate

CPU = torch.device("cpu")


def seen_by(task: Any, model: nn.Module) -> dict[str, Any]:
    """What an evaluation finds around it."""
    seen: dict[str, Any] = {}

    def quality(model: nn.Module, dataset: Any) -> float:
        seen.update(
            grad=torch.is_grad_enabled(),
            autocast=torch.is_autocast_enabled("cpu"),
            product=(torch.ones(2, 2) @ torch.ones(2, 2)).dtype,
            matmul=torch.backends.mkldnn.matmul.fp32_precision,
            modes=[module.training for module in model.modules()],
            draws=(torch.rand(1).item(), float(np.random.rand()), random.random()),
        )
        return 0.5

    task.quality = quality
    assert evaluate(task, model, None, seed=4, device=CPU) == 0.5
    return seen


def test_it_is_float32_without_gradients_in_eval_mode_whatever_is_around_it(line_with: Any) -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            seen = seen_by(line_with(), nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.is_grad_enabled()
    assert (seen["grad"], seen["autocast"], seen["product"], seen["matmul"]) == (False, False, torch.float32, "ieee")
    assert seen["modes"] == [False, False, False]


def test_each_module_gets_its_own_mode_back(line_with: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model[1].eval()  # frozen statistics in a model that trains
    seen_by(line_with(), model)
    assert [module.training for module in model.modules()] == [True, True, False, True]


def test_modes_come_back_after_a_failure(line_with: Any) -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(ZeroDivisionError):
        evaluate(line_with(quality=lambda model, dataset: 1 / 0), model, None, seed=0, device=CPU)
    assert model.training
    assert torch.is_grad_enabled()


def test_it_draws_the_same_each_time_and_leaves_training_its_random_state(line_with: Any) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = seen_by(line_with(), nn.Identity())["draws"]
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(3)
    assert seen_by(line_with(), nn.Identity())["draws"] == first


def test_batch_statistics_stay_as_they_were(line_with: Any) -> None:
    model = nn.BatchNorm1d(2)
    evaluate(line_with(quality=lambda model, x: model(x).sum()), model, torch.ones(4, 2), seed=0, device=CPU)
    assert model.running_mean is not None
    assert model.running_mean.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_have_no_quality(line_with: Any, value: float) -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.bias[0] = value
    assert math.isnan(evaluate(line_with(quality=lambda model, dataset: 1.0), model, None, seed=0, device=CPU))


def test_a_quality_that_is_no_number_is_refused(line: Any) -> None:
    class Worded(line):  # type: ignore[misc]
        def quality(self, model: nn.Module, dataset: Any) -> Any:
            return "good"

    with pytest.raises(TaskError, match=r"test_evaluation\.py:\d+: Worded\.quality\(\) returned a str"):
        evaluate(Worded(), nn.Linear(2, 1), None, seed=0, device=CPU)


def test_a_tensor_of_one_element_is_a_number(line_with: Any) -> None:
    def quality(model: nn.Module, dataset: Any) -> Tensor:
        return torch.tensor(0.25)

    assert evaluate(line_with(quality=quality), nn.Linear(2, 1), None, seed=0, device=CPU) == 0.25
