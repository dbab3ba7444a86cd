"""A seed decides all that a run may draw from, and its threads are its own."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from truestep.engine.randomness import own_random_state
from truestep.run.isolation import own_threads, seed_all

CPU = torch.device("cpu")


def drawn() -> tuple[float, float, float]:
    return torch.rand(1).item(), float(np.random.rand()), random.random()


def test_a_seed_decides_every_generator_that_a_task_may_draw_from() -> None:
    with own_random_state(CPU):
        seed_all(2**40 + 7, CPU)
        first = drawn()
        seed_all(2**40 + 7, CPU)
        assert drawn() == first
        seed_all(8, CPU)
        assert not set(drawn()) & set(first)


def test_a_seed_is_torchs_own() -> None:
    with own_random_state(CPU):
        seed_all(123, CPU)
        ours = torch.rand(3)
        torch.manual_seed(123)
        assert torch.equal(ours, torch.rand(3))


@pytest.fixture
def threads() -> Callable[[], int]:
    return torch.get_num_threads


def test_threads_go_back_to_what_they_were(threads: Callable[[], int]) -> None:
    before = threads()
    with own_threads(before + 1):
        assert threads() == before + 1
    assert threads() == before
    with own_threads(None):
        assert threads() == before
