"""Every lab holds, leaves no trace, and each row of the lessons has one."""

import gc
from dataclasses import replace

import pytest
import torch

from truestep.labs.asking.ask import Buckets, Build, Choice, Column, Find, Number, Open
from truestep.labs.lab import TOPICS
from truestep.labs.lessons import LESSONS, uncovered
from truestep.labs.shelf import lab, labs
from truestep.labs.shown import Check, Shown

NAMES = [each.name for each in labs()]


@pytest.fixture(scope="module")
def shown():
    """What each lab showed, each run once."""
    kept = {}
    return lambda name: kept.setdefault(name, lab(name).run())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_measured_is_what_theory_gives(name, shown):
    wrong = [check for check in shown(name).every_check() if not check.holds]
    assert not wrong, wrong


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_leaves_random_state_and_defaults_alone(name):
    torch.manual_seed(3)
    before, dtype, grad = torch.get_rng_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    lab(name).run()
    assert torch.equal(torch.get_rng_state(), before)
    assert (torch.get_default_dtype(), torch.is_grad_enabled(), gc.get_freeze_count()) == (dtype, grad, 0)


def test_a_lab_runs_on_one_thread_and_gives_the_others_back():
    def shows():
        return Shown(
            checks=(Check(what="threads", expected=1, measured=torch.get_num_threads(), because="sums keep their order"),)
        )

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert replace(lab("clip-order"), shows=shows).run().holds
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_names_within_a_lab_are_told_apart(name, shown):
    for names in (
        [check.what for check in shown(name).every_check()],
        [table.title for table in shown(name).tables],
        [ask.key for ask in lab(name).asks],
    ):
        assert len(names) == len(set(names))


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_comes_out_of_the_run(name, shown):
    for ask in lab(name).asks:
        match ask:
            case Choice():
                values = [option.value for option in ask.options]
                assert values.count(ask.answer(shown(name))) == 1, ask.key
            case Number():
                answer = ask.answer(shown(name))
                for tempting in ask.tempting:
                    assert abs(tempting.value(shown(name)) - answer) > ask.within * abs(answer), ask.key
            case Column():
                assert all(cell is not None for cell in ask.table(shown(name)).column(ask.blank)), ask.key
            case Buckets():
                answer = ask.answer(shown(name))
                assert set(answer.values()) <= set(ask.buckets), ask.key
                assert set(ask.why) == set(answer), ask.key
            case Find() | Build():
                assert ask.prompt
            case Open():
                assert len(ask.rubric) >= 2, ask.key


@pytest.mark.parametrize("name", NAMES)
def test_arrows_lead_to_labs_that_stand_before(name):
    for after in lab(name).after:
        assert NAMES.index(after.lab) < NAMES.index(name), "the order builds up"


def test_topics_and_names():
    assert {each.topic for each in labs()} <= set(TOPICS)
    assert len(NAMES) == len(set(NAMES))


def test_every_lesson_has_a_lab_and_no_lab_shows_another():
    shown = {fact for each in labs() for fact in each.facts}
    assert uncovered(shown) == []
    assert shown <= set(LESSONS)
