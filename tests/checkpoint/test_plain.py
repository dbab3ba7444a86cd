"""A checkpoint that a loop by hand has written is gone on from, and what it does not hold is told."""

import pytest
import torch

import truestep
from tests.checkpoint.trainings import Drawn, Net, begin, loss, plain, state
from truestep.errors import CheckpointError


def by_hand(attempts):
    """What a loop with a GradScaler has to save, after so many attempts in float16."""
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)
    for _ in range(attempts):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = loss(model, torch.randn(8, 5))
        scaler.scale(value).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}


@pytest.fixture(scope="module")
def made():
    return by_hand(12)


@pytest.fixture
def write(tmp_path):
    def written(content, **options):
        torch.save(content, tmp_path / "theirs.pt", **options)
        return tmp_path / "theirs.pt"

    return written


def states(made):
    return {name: thing.state_dict() for name, thing in made.items()}


def ours(**options):
    return begin(optimizer="adamw", **{"policy": "fp16"} | options)[0]


@pytest.mark.parametrize("legacy", [False, True])
def test_a_plain_checkpoint_is_gone_on_from_bit_for_bit(made, write, legacy):
    path = write(states(made) | {"epoch": 3}, _use_new_zipfile_serialization=not legacy)
    update = ours()
    restored = truestep.restore(path, update)
    assert plain(update.model.state_dict()) == plain(made["model"].state_dict())
    assert plain(update.optimizers[0].state_dict()) == plain(made["optimizer"].state_dict())
    assert update.schedulers[0].state_dict() == made["scheduler"].state_dict()
    scaler = made["scaler"].state_dict()
    assert (update.scale.value, update.scale.growth_count) == (scaler["scale"], scaler["_growth_tracker"])
    assert (restored.found, restored.missing) == (("model", "optimizer", "scheduler", "loss scale"), ("counts", "random state"))
    assert (restored.parts, restored.attempts, restored.quality) == ({"epoch": 3}, 0, None)
    assert update([torch.randn(8, 5)]).counts.attempts == 1, "the schedule takes its new place for its own"


def test_the_usual_other_names_are_read(made, write):
    renamed = {f"{name}_state_dict": value for name, value in states(made).items()}
    assert truestep.restore(write(renamed), ours()).found == ("model", "optimizer", "scheduler", "loss scale")


def test_a_model_alone_is_read_and_everything_else_is_told_to_be_missing_and_stays(made, write):
    update = ours()
    before = [plain(update.optimizers[0].state_dict()), update.scale, update.counts]
    restored = truestep.restore(write(made["model"].state_dict()), update)
    assert restored.found == ("model",)
    assert restored.missing == ("optimizer", "scheduler", "loss scale", "counts", "random state")
    assert [plain(update.optimizers[0].state_dict()), update.scale, update.counts] == before
    assert plain(update.model.state_dict()) == plain(made["model"].state_dict())


def test_weights_in_float32_reach_the_masters_of_narrow_ones(made, write):
    update = ours(policy="bf16-master")
    truestep.restore(write(made["model"].state_dict()), update)
    weights = dict(made["model"].named_parameters())
    assert plain(update.weights()) == plain(weights)
    assert plain(update.model.inner.weight) == plain(weights["inner.weight"].bfloat16())
    update([torch.randn(8, 5).bfloat16()])


def test_a_disabled_scaler_is_no_loss_scale(made, write):
    disabled = states(made) | {"scaler": torch.amp.GradScaler("cpu", enabled=False).state_dict()}
    assert "loss scale" in truestep.restore(write(disabled), ours()).missing


def test_a_list_of_optimizers_and_a_part_are_read(write):
    model = torch.nn.ModuleList([Net(), Net()])
    optimizers = [torch.optim.SGD(net.parameters(), lr=lr) for net, lr in zip(model, (0.5, 0.6), strict=True)]
    update = truestep.Update(model, optimizers, loss=lambda model, x: model[0](x).mean() + model[1](x).mean())
    theirs, data = Drawn(), Drawn()
    theirs.batch()
    states = [optimizer.state_dict() for optimizer in optimizers]
    path = write({"model": model.state_dict(), "optimizer": states, "data": theirs.state_dict()})
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = 0.0
    restored = truestep.restore(path, update, data=data)
    assert restored.found == ("model", "optimizer 0", "optimizer 1", "part 'data'")
    assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [0.5, 0.6]
    assert plain(data.state_dict()) == plain(theirs.state_dict())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda was: {"model": was["model"], "state_dict": was["model"]}, "it holds a model twice, as 'model' and 'state_dict'"),
        (lambda was: {"net": was["model"], "epoch": 1}, "it holds no model, but 'net', 'epoch'"),
        (lambda was: [was["model"]], "it holds a list"),
        (lambda was: {}, "it holds no model, but nothing"),
        (lambda was: was | {"optimizer": 5}, "what it holds as optimizer is no state dict"),
        (lambda was: was | {"model": 5}, "the model's state is a int"),
        (lambda was: was | {"scheduler": [was["scheduler"]] * 2}, "it holds 2 schedulers, and the update has 1"),
        (lambda was: was | {"scaler": {"scale": 1.0, "_growth_tracker": 0}}, "update does not take its state"),
        (lambda was: was | {"optimizer": {"state": {}, "param_groups": [{"params": [0]}]}}, "groups of 1 in the file, 6 here"),
        (lambda was: {"module." + name: value for name, value in was["model"].items()}, "the names differ by 'module.'"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_changes(made, write, change, complaint):
    update, data = begin(optimizer="adamw", policy="fp16")
    before = state(update, data)
    with pytest.raises(CheckpointError) as caught:
        truestep.restore(write(change(states(made))), update)
    assert complaint in str(caught.value)
    assert "nothing has changed" in caught.value.hint
    assert state(update, data) == before


def test_one_of_truesteps_own_is_read_by_its_path_too(tmp_path):
    update, data = begin()
    update([data.batch()])
    path = truestep.Checkpoints(tmp_path).save(update, data=data, quality=0.25)
    again, other = begin(seed=4)
    assert truestep.restore(str(path), again, data=other).quality == 0.25
    assert plain(other.state_dict()) == plain(data.state_dict())


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="it cannot be read: No such file"):
        truestep.restore(tmp_path / "none", ours())
