"""A folder of checkpoints: what is saved, what is refused before it is saved, and who may write."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import truestep
from tests.checkpoint.trainings import begin, plain, state, train
from tests.disk.faults import in_child
from tests.no_room import NO_ROOM, no_room
from truestep.errors import CheckpointError, StateError, UsageError


@pytest.fixture
def training():
    update, data = begin()
    train(update, data, 2)
    return update, data


def names(folder):
    return sorted(os.listdir(folder))


def test_a_folder_without_a_checkpoint_restores_nothing_and_is_not_made(training, tmp_path):
    ours = truestep.Checkpoints(tmp_path / "none")
    before = state(*training)
    assert ours.restore(training[0], data=training[1]) is None
    assert ours.best() is None
    assert state(*training) == before
    assert not ours.folder.exists()


def test_files_of_other_names_are_neither_read_nor_removed(training, tmp_path):
    others = ["model.pt", "attempt-1.ckpt", "attempt-00000001.ckpt.bak", ".attempt-00000001.ckpt", "attempt-00000001.ckpt~"]
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    ours = truestep.Checkpoints(tmp_path, keep_last=1)
    path = ours.save(training[0])
    assert names(tmp_path) == sorted([*others, path.name])
    assert ours.restore(training[0]).refused == ()


def test_the_newest_is_the_one_that_was_saved_last_after_going_back(training, tmp_path):
    """A run that went back to its best goes on from there, not from what it left behind."""
    update, data = training
    ours = truestep.Checkpoints(tmp_path, keep_last=1, quality_better="higher")
    ours.save(update, quality=0.9, data=data)
    train(update, data, 7)
    abandoned = ours.save(update, quality=0.1, data=data)
    truestep.restore(ours.best(), update, data=data)
    train(update, data, 1)
    path = truestep.Checkpoints(tmp_path, keep_last=3).save(update, quality=0.2, data=data)
    assert (abandoned.name, path.name) == ("attempt-00000009.ckpt", "attempt-00000003.ckpt")
    assert ours.restore(update, data=data).path == path


def test_a_second_save_at_the_same_attempt_takes_the_firsts_place(training, tmp_path):
    ours = truestep.Checkpoints(tmp_path)
    assert ours.save(training[0], epoch=1) == ours.save(training[0], epoch=2)
    assert ours.restore(training[0]).parts == {"epoch": 2}
    assert len(names(tmp_path)) == 1


def test_the_best_is_whole_and_never_one_without_a_finite_quality(training, tmp_path):
    update, data = training
    ours = truestep.Checkpoints(tmp_path, keep_last=9, quality_better="lower")
    paths = []
    for quality in (3.0, 1.0, math.nan, -math.inf, None, 2.0):
        train(update, data, 1)
        paths.append(ours.save(update, quality=quality))
    assert ours.best() == paths[1]
    assert [
        math.isnan(truestep.read_checkpoint(paths[2]).description.quality),
        truestep.read_checkpoint(paths[3]).description.quality,
    ] == [True, -math.inf]
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    assert ours.best() == paths[5]
    assert truestep.Checkpoints(tmp_path).best() is None


def test_a_model_that_is_not_finite_is_saved_as_it_is(training, tmp_path):
    update, data = training
    with torch.no_grad():
        update.model.inner.weight[0, 0] = math.nan
    before = state(update, data)
    truestep.Checkpoints(tmp_path).save(update, data=data)
    again, other = begin(seed=8)
    truestep.Checkpoints(tmp_path).restore(again, data=other)
    assert state(again, other) == before


def test_a_description_tells_counts_policy_and_versions(training, tmp_path):
    read = truestep.read_checkpoint(truestep.Checkpoints(tmp_path).save(training[0], quality=1, note="a"))
    assert read.description.counts == training[0].counts
    assert (read.description.quality, read.description.policy) == (1.0, "fp32")
    assert (read.description.torch, read.description.truestep) == (torch.__version__, "0.1.0")
    assert read.state["parts"]["note"]["value"] == "a"


PLAIN = {
    "text": "é",
    "number": 1.5,
    "nothing": None,
    "complex": 1j,
    "bytes": b"\x00",
    "nested": {"a": [1, (2.0, True)], 3: {4}},
    "tensor": torch.arange(3, dtype=torch.int64),
    "narrow": torch.ones(2, dtype=torch.bfloat16),
    "empty": torch.empty(0),
    "dtype": torch.float16,
}


def test_plain_values_come_back_by_name(training, tmp_path):
    ours = truestep.Checkpoints(tmp_path)
    ours.save(training[0], **PLAIN)
    assert plain(ours.restore(training[0]).parts) == plain(PLAIN)


class Stateful:
    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return self.value

    def load_state_dict(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"a": 1, "sampler": {"rng": [np.random.default_rng(0)]}}, "the part 'sampler', at 'rng', at 0 is a Generator"),
        ({"array": np.zeros(3)}, "the part 'array' is a ndarray"),
        ({"step": Stateful({"hook": lambda: 1})}, "the part 'step', at 'hook' is a function"),
        ({"path": Path("a")}, "the part 'path' is a PosixPath"),
        ({"lock": [open]}, "the part 'lock', at 0 is a builtin_function_or_method"),
    ],
)
def test_what_could_not_be_loaded_again_is_refused_by_name_and_nothing_is_written(training, tmp_path, parts, complaint):
    ours = truestep.Checkpoints(tmp_path)
    first = ours.save(training[0])
    content = first.read_bytes()
    train(*training, 1)
    with pytest.raises(CheckpointError) as caught:
        ours.save(training[0], **parts)
    assert complaint in str(caught.value)
    assert names(tmp_path) == [first.name]
    assert first.read_bytes() == content


def test_a_state_of_the_models_own_that_could_not_be_loaded_is_named(tmp_path):
    class Odd(torch.nn.Linear):
        def get_extra_state(self):
            return np.ones(1)

        def set_extra_state(self, state):
            pass

    model = Odd(2, 1)
    update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())
    with pytest.raises(CheckpointError, match="the state of the model, at '_extra_state' is a ndarray"):
        truestep.Checkpoints(tmp_path).save(update)
    assert names(tmp_path) == []


@pytest.mark.parametrize("options", [{"keep_last": 0}, {"keep_last": 1.5}, {"quality_better": "best"}])
def test_what_keeps_nothing_and_what_is_no_direction_are_refused(tmp_path, options):
    with pytest.raises(UsageError, match=r"keep_last=|quality_better="):
        truestep.Checkpoints(tmp_path, **options)


@pytest.mark.parametrize("place", ["file", "file/in"])
def test_a_file_where_the_folder_should_be_is_told_before_anything_is_lost(training, tmp_path, place):
    (tmp_path / "file").write_bytes(b"x")
    ours = truestep.Checkpoints(tmp_path / place)
    for ask in (ours.reserve, lambda: ours.save(training[0])):
        with pytest.raises(CheckpointError, match="cannot take checkpoints") as caught:
            ask()
        assert caught.value.path == str(tmp_path / place)
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_file_where_the_folder_should_be_holds_no_checkpoint(training, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="cannot be read"):
        truestep.Checkpoints(tmp_path / "file").restore(training[0])


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the system has no /proc")
@pytest.mark.parametrize("place", ["/proc", "/proc/checkpoints"])
def test_a_folder_in_which_no_file_can_be_made_is_told(place):
    with pytest.raises(CheckpointError, match=f"{place} cannot take checkpoints"):
        truestep.Checkpoints(place).reserve()


def test_a_checkpoint_that_the_system_cuts_off_leaves_the_earlier_ones(training, tmp_path):
    """The proof of the folder fits, the checkpoint does not."""
    update, data = training
    first = truestep.Checkpoints(tmp_path).save(update, data=data)
    train(update, data, 1)
    with no_room(4000), pytest.raises(CheckpointError, match=f"earlier checkpoints are as they were: {NO_ROOM}"):
        truestep.Checkpoints(tmp_path).save(update, data=data)
    assert names(tmp_path) == [first.name]
    assert truestep.Checkpoints(tmp_path).restore(update, data=data).refused == ()


def test_a_second_process_may_read_but_not_save(training, tmp_path):
    update, data = training
    ours = truestep.Checkpoints(tmp_path, quality_better="higher")
    path = ours.save(update, data=data, quality=1.0)

    def child():
        theirs = truestep.Checkpoints(tmp_path, quality_better="higher")
        assert theirs.best() == path
        assert theirs.restore(update, data=data).path == path
        for one in (theirs, ours):  # the parent's object has no part in its hold here
            with pytest.raises(CheckpointError, match="another process saves into"):
                one.save(update)

    assert in_child(child) == 0
    ours.save(update)
    ours = None
    assert in_child(lambda: truestep.Checkpoints(tmp_path).save(update)) == 0


def test_a_file_that_its_owner_removes_between_two_looks_is_not_told_as_torn(training, tmp_path, monkeypatch):
    update, data = training
    truestep.Checkpoints(tmp_path).save(update, data=data)
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*real(path), "attempt-00000009.ckpt"])
    assert truestep.Checkpoints(tmp_path).restore(update, data=data).refused == ()


def test_inside_an_attempt_there_is_nothing_whole_to_save(training, tmp_path):
    update, _ = training
    with pytest.raises(StateError), update.attempt():
        truestep.Checkpoints(tmp_path).save(update)
    assert names(tmp_path) == []


def test_saving_reads_the_state_where_it_lies(tmp_path):
    """The peak of memory grows by less than a second copy of the model, for a model of 40 MB."""
    text = (
        "import resource, sys, torch, truestep\n"
        "model = torch.nn.Linear(10_000, 1000)\n"
        "update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())\n"
        "small = torch.nn.Linear(1, 1)\n"
        "other = truestep.Update(small, torch.optim.SGD(small.parameters()), loss=lambda model, x: model(x).mean())\n"
        "truestep.Checkpoints(sys.argv[1] + '/small').save(other)\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "truestep.Checkpoints(sys.argv[1]).save(update)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak)"
    )
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=True)
    grown_kib = int(done.stdout)
    assert grown_kib < 20_000
