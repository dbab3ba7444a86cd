"""The shared schedule rises to 1 and falls to 0."""

import pytest
import torch

from truestep.tasks.schedule import warmup_cosine, warmup_cosine_of


def test_the_schedule_warms_up_to_1_and_falls_to_0() -> None:
    factors = [warmup_cosine(tick, ticks=200) for tick in range(201)]
    assert factors[:10] == [(tick + 1) / 10 for tick in range(10)]
    assert factors[10] == 1.0
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[200] == 0.0


@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_schedule_of_few_ticks_is_one(ticks: int) -> None:
    assert all(0.0 <= warmup_cosine(tick, ticks=ticks) <= 1.0 for tick in range(ticks + 2))


def test_an_optimizer_follows_it() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler = warmup_cosine_of(optimizer, 40)
    for tick in range(5):
        assert optimizer.param_groups[0]["lr"] == 0.5 * warmup_cosine(tick, ticks=40)
        optimizer.step()
        scheduler.step()
