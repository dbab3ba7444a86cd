"""What does not fit is refused by name, and then nothing has changed; what fails midway is undone."""

import pytest
import torch
from torch import nn

import truestep
from tests.checkpoint.trainings import Drawn, begin, loss, state, train
from truestep.checkpoint.restoring import restore_state
from truestep.errors import CheckpointError


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of SGD, cosine, fp32, after 4 attempts."""
    update, data = begin()
    train(update, data, 4)
    truestep.Checkpoints(tmp_path).save(update, data=data, epoch=1)
    return tmp_path


def refusal(folder, update, data, parts=None):
    """The error of restoring, which has changed nothing."""
    before = state(update, data)
    with pytest.raises(CheckpointError) as caught:
        truestep.Checkpoints(folder).restore(update, **({"data": data} if parts is None else parts))
    assert state(update, data) == before
    assert caught.value.path == str(folder / "attempt-00000004.ckpt")
    assert "nothing has changed" in caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"width": 7}, "the shape of 'inner.weight' is Size([6, 5]) in the file and Size([7, 5]) in the model"),
        ({"optimizer": "adamw"}, "optimizer 0 is a SGD in the file and a AdamW here"),
        ({"scheduler": "one cycle"}, "scheduler 0 is a CosineAnnealingLR in the file and a OneCycleLR here"),
        ({"policy": "bf16"}, "it was saved under the policy fp32, and this update's is bf16"),
        ({"policy": "bf16"}, 'hint: build the update with policy="fp32"'),
    ],
)
def test_what_belongs_to_another_training_is_refused_by_name(folder, other, complaint):
    update, data = begin(**other)
    train(update, data, 2)
    assert complaint in refusal(folder, update, data)


def update_of(model, optimizer=None, **options):
    return truestep.Update(model, optimizer or torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, **options)


def saved(folder, update):
    truestep.Checkpoints(folder).save(update)
    return folder / "attempt-00000000.ckpt"


def refused(folder, saving, restoring):
    path = saved(folder, saving)
    before = [tensor.clone() for tensor in restoring.model.state_dict().values()]
    with pytest.raises(CheckpointError) as caught:
        truestep.restore(path, restoring)
    assert all(map(torch.equal, before, restoring.model.state_dict().values()))
    return str(caught.value)


def test_a_parameter_that_only_one_of_the_two_has_is_named(tmp_path):
    bare, biased = update_of(nn.Linear(5, 1, bias=False)), update_of(nn.Linear(5, 1))
    assert "the model has 'bias', and the file has not" in refused(tmp_path, bare, biased)
    assert "the file has 'bias', and the model has not" in refused(tmp_path, biased, bare)


def test_a_wrapper_around_the_model_is_named(tmp_path):
    inner = nn.Linear(5, 1)
    wrapped = nn.Module()
    wrapped.module = nn.Linear(5, 1)
    assert "the names differ by 'module.'" in refused(tmp_path, update_of(wrapped), update_of(inner))
    assert "give Update what is inside" in refused(tmp_path, update_of(inner), update_of(wrapped))


def test_a_buffer_of_another_format_is_refused(tmp_path):
    models = [nn.Linear(5, 1) for _ in range(2)]
    for model, dtype in zip(models, (torch.float32, torch.float64), strict=True):
        model.register_buffer("seen", torch.zeros(1, dtype=dtype))
    assert "the dtype of 'seen' is float32 in the file and float64 in the model" in refused(tmp_path, *map(update_of, models))


def test_another_number_of_optimizers_or_schedulers_is_refused(tmp_path):
    model = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 1))
    two = update_of(model, [torch.optim.SGD(part.parameters(), lr=0.1) for part in model])
    assert "it holds 2 optimizers, and the update has 1" in refused(tmp_path, two, update_of(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduled = update_of(model, optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2))
    assert "it holds 1 scheduler, and the update has 0" in refused(tmp_path, scheduled, update_of(model))


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        (lambda a, b: [{"params": [b, a]}], "in another order"),
        (lambda a, b: [{"params": [a]}, {"params": [b]}], "grouped otherwise: groups of 2 in the file, 1 + 1 here"),
        (lambda a, b: [{"params": [a]}], "groups of 2 in the file, 1 here"),
    ],
)
def test_parameters_in_other_groups_or_in_another_order_are_refused(tmp_path, groups, complaint):
    """Their shapes are equal: an optimizer's state, which knows places only, would go to the wrong ones unseen."""
    model = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False))
    saving, restoring = (
        torch.optim.SGD(made, lr=0.1) for made in ([{"params": [*model.parameters()]}], groups(*model.parameters()))
    )
    assert complaint in refused(tmp_path, update_of(model, saving), update_of(model, restoring))


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({}, "it holds the state of a part 'data', which is not given"),
        ({"data": Drawn(), "ema": Drawn()}, "it holds no part 'ema'"),
        ({"data": Drawn(), "epoch": Drawn()}, "leave epoch= out and take restored.parts['epoch']"),
        ({"data": 3}, "part 'data' is a plain value"),
    ],
)
def test_parts_that_do_not_fit_are_named(folder, parts, complaint):
    update, data = begin()
    assert complaint in refusal(folder, update, data, parts)


class Failing(Drawn):
    """Takes half of its state, then fails, once."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def load_state_dict(self, state):
        super().load_state_dict(state)
        error, self.error = self.error, None
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_part_that_fails_midway_undoes_all_that_was_loaded(folder, error):
    update, _ = begin(seed=3)
    data = Failing(error)
    train(update, data, 2)
    before = state(update, data)
    with pytest.raises((CheckpointError, KeyboardInterrupt)) as caught:
        truestep.Checkpoints(folder).restore(update, data=data)
    assert state(update, data) == before
    assert isinstance(caught.value, KeyboardInterrupt) or "part 'data' does not take its state: ValueError: no" in str(
        caught.value
    )
    assert truestep.Checkpoints(folder).restore(update, data=data).attempts == 4


WRONG_INSIDE = {
    "model": lambda was: was | {"norm.running_mean": "no tensor"},
    "optimizers": lambda was: [was[0] | {"state": was[0]["state"] | {"state": 7}}],
    "schedulers": lambda was: [was[0] | {"state": 7}],
    "update": lambda was: was | {"schema": 99},
    "random": lambda was: was | {"python": (7,)},
}
"""States of the right form outside."""


@pytest.mark.parametrize("place", WRONG_INSIDE)
def test_an_object_that_fails_midway_undoes_all_that_was_loaded(folder, place):
    content = dict(truestep.read_checkpoint(folder / "attempt-00000004.ckpt").state)
    content[place] = WRONG_INSIDE[place](content[place])
    update, data = begin(seed=3)
    train(update, data, 2)
    before = state(update, data)
    with pytest.raises(CheckpointError, match="does not take its state"):
        restore_state(folder, content, update, {"data": data})
    assert state(update, data) == before
    train(update, data, 1)
