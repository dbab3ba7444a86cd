"""A file that is not as it was written is told by name, runs nothing, and gives way to the one before it."""

import io
import os
import pickle
import shutil
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import truestep
from tests.checkpoint.trainings import begin, state, train
from truestep.checkpoint import file
from truestep.errors import CheckpointError

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with the checkpoints of 1 and 2 attempts, and a training to restore into."""
    folder = tmp_path_factory.mktemp("two")
    update, data = begin()
    for _ in range(2):
        train(update, data, 1)
        truestep.Checkpoints(folder).save(update, data=data)
    return folder


@pytest.fixture
def folder(two, tmp_path):
    return shutil.copytree(two, tmp_path / "folder")


NEWEST, OTHER = "attempt-00000002.ckpt", "attempt-00000001.ckpt"


def passed_over(folder, content):
    """Why the newest, with this content, is passed over for the other."""
    (folder / NEWEST).write_bytes(content)
    update, data = begin(seed=7)
    restored = truestep.Checkpoints(folder).restore(update, data=data)
    ((path, reason),) = restored.refused
    assert (restored.attempts, restored.path, path) == (1, folder / OTHER, folder / NEWEST)
    with pytest.raises(CheckpointError) as caught:
        truestep.read_checkpoint(folder / NEWEST)
    assert reason == caught.value.reason
    assert str(folder / NEWEST) in str(caught.value)
    return reason


@FEW
@given(data=st.data())
def test_a_file_that_is_cut_off_anywhere_is_passed_over(two, folder, data):
    whole = (two / NEWEST).read_bytes()
    length = data.draw(st.integers(0, len(whole) - 1))
    reason = passed_over(folder, whole[:length])
    assert any(word in reason for word in ("cut off", "empty", "does not begin")), reason


@FEW
@given(data=st.data())
def test_a_file_of_which_one_bit_is_flipped_is_passed_over(two, folder, data):
    altered = bytearray((two / NEWEST).read_bytes())
    head = altered.index(b"\n", altered.index(b"\n") + 1) + 1
    places = st.integers(0, head - 1) | st.integers(head, len(altered) - 1)  # the head is a fortieth of it
    altered[data.draw(places)] ^= 1 << data.draw(st.integers(0, 7))
    reason = passed_over(folder, bytes(altered))
    assert any(word in reason for word in ("altered", "does not begin")), reason


@FEW
@given(content=st.binary(max_size=300), ours=st.booleans())
def test_a_foreign_file_is_passed_over(folder, content, ours):
    passed_over(folder, file.MAGIC * ours + content)


def test_a_file_with_more_behind_it_and_an_empty_one_are_passed_over(two, folder):
    whole = (two / NEWEST).read_bytes()
    assert "too long" in passed_over(folder, whole + b"x")
    assert "empty" in passed_over(folder, b"")


def test_a_folder_in_its_place_is_passed_over(folder):
    (folder / NEWEST).unlink()
    (folder / NEWEST).mkdir()
    update, data = begin()
    restored = truestep.Checkpoints(folder).restore(update, data=data)
    assert restored.refused == ((folder / NEWEST, "it is no regular file"),)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["TRUESTEP_BOMB"],)


def test_a_pickle_that_runs_code_runs_none_with_a_right_digest_or_without(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TRUESTEP_BOMB", str(tmp_path / "exploded"))
    description = truestep.read_checkpoint(folder / NEWEST).description
    monkeypatch.setattr(file, "_demand_loadable", lambda path: None)  # whoever made the file did not ask
    file.write_checkpoint(folder / NEWEST, {"model": Bomb()}, description)
    monkeypatch.undo()
    monkeypatch.setenv("TRUESTEP_BOMB", str(tmp_path / "exploded"))
    assert "mkdir" in passed_over(folder, (folder / NEWEST).read_bytes())

    plain = io.BytesIO()
    torch.save({"model": Bomb()}, plain)
    for content in (plain.getvalue(), pickle.dumps(Bomb())):
        passed_over(folder, content)
        update, _ = begin()
        with pytest.raises(CheckpointError, match="weights_only"):
            truestep.restore(folder / NEWEST, update)
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickle.dumps(Bomb()))
    assert (tmp_path / "exploded").exists(), "it would have"


def test_a_checkpoint_of_a_newer_schema_is_told_by_its_number(two, folder, monkeypatch):
    description = truestep.read_checkpoint(two / NEWEST).description
    monkeypatch.setattr(file, "SCHEMA", 2)
    file.write_checkpoint(folder / NEWEST, {}, description)
    monkeypatch.undo()
    assert passed_over(folder, (folder / NEWEST).read_bytes()) == "it is of schema 2, and this truestep reads schema 1"


def test_a_file_that_nobody_may_read_is_passed_over(folder, monkeypatch):
    real = open

    def broken(path, *args, **kwargs):
        if path == folder / NEWEST:
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", broken)
    update, data = begin()
    restored = truestep.Checkpoints(folder).restore(update, data=data)
    assert restored.refused == ((folder / NEWEST, "it cannot be read: Permission denied"),)


def test_where_no_file_is_whole_each_is_told_and_nothing_changes(folder):
    (folder / NEWEST).write_bytes(b"")
    whole = (folder / OTHER).read_bytes()
    (folder / OTHER).write_bytes(whole[:-1])
    update, data = begin()
    before = state(update, data)
    with pytest.raises(CheckpointError) as caught:
        truestep.Checkpoints(folder).restore(update, data=data)
    assert {path.name for path, _ in caught.value.refused} == {NEWEST, OTHER}
    assert f"{NEWEST}: it is empty" in str(caught.value)
    assert f"{OTHER}: it is cut off" in str(caught.value)
    assert state(update, data) == before
    assert sorted(os.listdir(folder)) == [OTHER, NEWEST], "what cannot be used is left as it is"


def test_torn_files_do_not_count_among_those_that_are_kept_and_are_not_removed(folder):
    whole = (folder / NEWEST).read_bytes()
    (folder / NEWEST).write_bytes(whole[:-1])
    update, data = begin()
    ours = truestep.Checkpoints(folder)
    ours.restore(update, data=data)
    train(update, data, 3)
    ours.save(update, data=data)
    assert sorted(os.listdir(folder)) == [OTHER, NEWEST, "attempt-00000004.ckpt"]
    assert ours.restore(update, data=data).refused == (), "the newest is whole"


@pytest.mark.parametrize("mended", ["saved again", "brought back"])
def test_a_file_that_is_whole_again_counts_and_goes_like_any_other(folder, mended):
    whole = (folder / NEWEST).read_bytes()
    (folder / NEWEST).write_bytes(whole[:-1])
    update, data = begin()
    ours = truestep.Checkpoints(folder)
    assert ours.restore(update, data=data).attempts == 1
    if mended == "brought back":
        (folder / NEWEST).write_bytes(whole)
        assert ours.restore(update, data=data).attempts == 2
    else:
        train(update, data, 1)
        assert ours.save(update, data=data) == folder / NEWEST
    for _ in range(2):
        train(update, data, 1)
        ours.save(update, data=data)
    assert sorted(os.listdir(folder)) == ["attempt-00000003.ckpt", "attempt-00000004.ckpt"]


def test_what_is_saved_after_a_torn_one_is_newer_even_with_fewer_attempts(two, folder, tmp_path):
    update, data = begin()
    train(update, data, 9)
    late = truestep.Checkpoints(folder).save(update, data=data)
    late.write_bytes(late.read_bytes()[:-1])
    ours = truestep.Checkpoints(folder)
    assert ours.restore(update, data=data).attempts == 2
    train(update, data, 1)
    path = ours.save(update, data=data)
    restored = truestep.Checkpoints(folder).restore(update, data=data)
    assert (restored.path, restored.refused) == (path, ())


def test_a_checkpoint_is_a_head_to_read_and_what_torch_writes(two):
    first, second, rest = (two / NEWEST).read_bytes().split(b"\n", 2)
    assert first.startswith(b"truestep-checkpoint 1 ")
    assert b'"policy":"fp32"' in second
    assert zipfile.ZipFile(io.BytesIO(rest)).testzip() is None
    assert set(torch.load(io.BytesIO(rest), weights_only=True)) == {
        "policy",
        "model",
        "buffers",
        "optimizers",
        "schedulers",
        "update",
        "random",
        "parts",
    }
