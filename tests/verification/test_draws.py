"""All global generators come back to their moment, whatever was drawn and whatever kind of generator NumPy has."""

import random
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from truestep.verification.draws import _NUMPYS, _PYTHONS, Draws, _Moment

CPU = torch.device("cpu")


@contextmanager
def numpys(generator):
    own = np.random.get_bit_generator()
    np.random.set_bit_generator(generator)
    np.random.rand()  # new words are made before the first draw: the next moves the place alone
    try:
        yield
    finally:
        np.random.set_bit_generator(own)


def drawn():
    return torch.rand(2).tolist(), random.random(), random.gauss(), np.random.rand(), np.random.randn()


DRAWS = {
    "nothing": lambda: None,
    "torch's": lambda: torch.rand(1),
    "Python's": random.random,
    "Python's other half of a pair": random.gauss,
    "all of Python's words": lambda: random.randbytes(4 * 624),
    "another seed of Python's": lambda: random.seed(1),
    "NumPy's": np.random.rand,
    "NumPy's other half of a pair": np.random.randn,
    "all of NumPy's words": lambda: np.random.bytes(4 * 624),
    "another seed of NumPy's": lambda: np.random.seed(1),
    "a shuffle of NumPy's": lambda: np.random.shuffle([1, 2, 3]),
}


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.PCG64])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_after_a_return_is_what_was_drawn_after_the_moment(name, half, kind):
    with numpys(kind(3)):
        if half:
            np.random.randn()  # leaves the other number of its pair for the next call
            random.gauss()
        moment = Draws.now(CPU)
        wanted = drawn()
        moment.restore()
        DRAWS[name]()
        moment.restore()
        assert drawn() == wanted


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_a_later_moment_is_its_own(name, half):
    with numpys(np.random.MT19937(3)):
        random.seed(3)
        if half:
            np.random.randn()
            random.gauss()
        first = Draws.now(CPU)
        DRAWS[name]()
        second = first.again()
        wanted = drawn()
        first.restore()
        second.restore()
        assert drawn() == wanted


def test_pythons_state_is_read_again_only_where_something_was_drawn():
    random.seed(3)
    first = Draws.now(CPU)
    assert first.again().pythons is first.pythons
    random.random()
    assert first.again().pythons is not first.pythons


def test_another_generator_in_the_place_of_numpys_is_another_moment():
    with numpys(np.random.MT19937(3)):
        first = Draws.now(CPU)
        wanted = np.random.rand()
        np.random.set_bit_generator(np.random.MT19937(4))
        first.restore()
        assert np.random.rand() == wanted
    with numpys(np.random.MT19937(3)):
        first = Draws.now(CPU)
        np.random.set_bit_generator(np.random.MT19937(4))
        assert first.again().numpys is not first.numpys


def test_a_half_that_somebody_puts_back_into_pythons_is_seen():
    random.seed(3)
    random.gauss()
    with_a_half = random.getstate()
    random.gauss()
    moment = Draws.now(CPU)
    random.setstate(with_a_half)
    assert moment.again().pythons is not moment.pythons


@pytest.mark.parametrize("twister", [_PYTHONS, _NUMPYS])
def test_what_lies_in_memory_otherwise_than_is_thought_is_always_read(twister):
    with numpys(np.random.MT19937(3)):
        random.seed(3)
        assert _Moment(twister).is_now
        elsewhere = _Moment(twister._replace(told=lambda state: bytes(len(twister.told(state)))))
        assert not elsewhere.is_now
        wanted = twister.read()
        drawn()
        elsewhere.restore()
        assert str(twister.read()) == str(wanted)


def test_numpys_state_is_read_again_only_where_something_was_drawn():
    with numpys(np.random.MT19937(3)):
        first = Draws.now(CPU)
        assert first.again().numpys is first.numpys
        np.random.rand()
        assert first.again().numpys is not first.numpys
    with numpys(np.random.PCG64(3)):
        first = Draws.now(CPU)
        assert first.again().numpys is not first.numpys  # of this one nobody can tell
