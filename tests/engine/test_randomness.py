"""Random states go back to what they were, in every generator that code may draw from."""

import random

import numpy as np
import pytest
import torch

from truestep.engine.randomness import TorchRandomState, absent, own_random_state, random_state, set_random_state

CPU = torch.device("cpu")


def drawn() -> tuple[float, float, float]:
    return torch.rand(1).item(), float(np.random.rand()), random.random()


def test_an_attempts_own_capture_brings_torchs_draws_back_and_leaves_the_others_alone() -> None:
    state = TorchRandomState.now(CPU)
    first = drawn()
    state.restore()
    again = drawn()
    assert again[0] == first[0]
    assert not set(again[1:]) & set(first[1:])


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_drawn_inside_leaves_no_trace(fails: bool) -> None:
    def body() -> None:
        with own_random_state(CPU):
            torch.manual_seed(0)
            np.random.seed(0)
            random.seed(0)
            drawn()
            if fails:
                raise ValueError("inside")

    state = random_state()
    undisturbed = drawn()
    set_random_state(state)
    if fails:
        with pytest.raises(ValueError, match="inside"):
            body()
    else:
        body()
    assert drawn() == undisturbed


def test_random_states_come_back_bit_for_bit() -> None:
    def draw() -> tuple[object, ...]:
        return torch.rand(3).tolist(), torch.randn(1).item(), random.gauss(0, 1), np.random.randn(3).tolist(), random.random()

    random.gauss(0, 1)  # half of a pair waits in Python's generator
    np.random.randn()  # and in NumPy's
    state = random_state()
    drawn = draw()
    draw()
    set_random_state(state)
    assert draw() == drawn


def test_generators_of_devices_that_are_not_there_are_told() -> None:
    devices = torch.cuda.device_count()
    state = random_state() | {"cuda": [torch.empty(0)] * (devices + 2)}
    assert absent(state) == (f"random state of cuda:{devices}", f"random state of cuda:{devices + 1}")
    assert absent(random_state()) == absent(None) == ()
