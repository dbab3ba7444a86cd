"""A training that is saved and restored is the undisturbed one, bit for bit."""

import pytest

import truestep
from tests.checkpoint.trainings import OPTIMIZERS, SCHEDULERS, begin, plain, state, train


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "policy"),
    [
        *((optimizer, "cosine", "fp32") for optimizer in OPTIMIZERS),
        *(("adamw", scheduler, "bf16") for scheduler in SCHEDULERS),
        ("sgd", "warmup", "fp16"),
        ("fused adamw", "one cycle", "fp16"),
        ("adamw", "cosine", "bf16-master"),
        ("sgd", "cosine", "fp16-master"),
        ("adamw", "cosine", "bf16-pure"),
    ],
)
def test_a_restored_training_goes_on_bit_for_bit(tmp_path, optimizer, scheduler, policy):
    kinds = {"optimizer": optimizer, "scheduler": scheduler, "policy": policy}
    update, data = begin(**kinds)
    train(update, data, 10)
    before = state(update, data)
    truestep.Checkpoints(tmp_path).save(update, data=data, epoch=4)
    assert state(update, data) == before, "saving changed the training"
    losses = [outcome.loss for outcome in train(update, data, 10)]
    assert policy != "fp16" or 0 < before["counts"].skipped < update.counts.skipped < 15, "skips on both sides of the save"

    again, other = begin(**kinds, seed=99)
    train(again, other, 3)  # a process that has done something else
    restored = truestep.Checkpoints(tmp_path).restore(again, data=other)
    assert state(again, other) == before
    assert (restored.attempts, restored.parts, restored.missing, restored.refused) == (10, {"epoch": 4}, (), ())
    assert plain([outcome.loss for outcome in train(again, other, 10)]) == plain(losses)
    assert state(again, other) == state(update, data)
