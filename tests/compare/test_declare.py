"""What a comparison declares of task and machine, and what it refuses before any work."""

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import ready
from tests.profile import FULL
from truestep import errors
from truestep.compare.declare import Asked, declare
from truestep.compare.describe import setting_words
from truestep.compare.protocol import first_difference
from truestep.engine.policy import Policy
from truestep.run import Settings, initial_digest, train

LINE = """
import torch
from torch.utils.data import TensorDataset
from truestep.tasks import Splits, Task

class Line(Task):
    name, batch, microbatches, updates = "line", 8, 2, 30
    target, quality_name, quality_better = {target}, "squared error", "lower"
    def splits(self):
        x = torch.linspace(-1, 1, 48).unsqueeze(1)
        parts = [TensorDataset(x[i::3], 2 * x[i::3]) for i in range(3)]
        return Splits(train=parts[0], validation=parts[1], test=parts[2])
    def model(self):
        {model}
        return torch.nn.Linear(1, 1)
    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.5)
    def loss(self, model, microbatch):
        return torch.nn.functional.mse_loss(model(microbatch[0]), microbatch[1])
    def quality(self, model, dataset):
        return torch.nn.functional.mse_loss(model(dataset.tensors[0]), dataset.tensors[1]).item()
"""


@pytest.fixture
def line(tmp_path):
    """A task file; returns FILE.py:NAME."""

    def write(*, target="0.01", model="pass"):
        (tmp_path / "line.py").write_text(LINE.format(target=target, model=model))
        return f"{tmp_path / 'line.py'}:Line"

    return write


def test_the_protocol_states_what_the_task_says(line):
    asked = line()
    task, protocol = declare(Asked(task=asked, candidates=["fp32", "fp16  clip=1.0"], seeds=[4, 2]))
    assert protocol.task == asked
    assert protocol.data_digest == task.digest()
    assert protocol.candidates == ("fp32", "fp16 clip=1")
    assert protocol.seeds == (4, 2)
    assert protocol.splits == {"train": 16, "validation": 16, "test": 16}
    assert (protocol.batch, protocol.microbatches, protocol.budget_attempts) == (8, 2, 30)
    assert (protocol.quality, protocol.direction) == ("squared error", "lower")
    assert (protocol.target, protocol.target_from) == (0.01, "the task")
    assert protocol.evaluate_every == 16, "an epoch, where the task says nothing"
    assert protocol.initial_weights == {str(seed): initial_digest(task, seed=seed) for seed in (4, 2)}
    assert protocol.model == "2 parameters, initialised by the task: Linear(in_features=1, out_features=1, bias=True)"
    assert "SGD(" in protocol.optimizer
    assert "lr=0.1" in protocol.optimizer
    assert "momentum=0.5" in protocol.optimizer
    assert "initial_lr" not in protocol.optimizer
    assert protocol.schedule == "none"
    assert protocol.margin_quality == pytest.approx(0.0001, rel=1e-12)
    assert protocol.versions["torch"] == torch.__version__


def test_a_schedule_is_described_without_addresses_and_over_the_budget():
    task, protocol = declare(Asked(task="digits", candidates=["fp32"], seeds=[0], budget_attempts=123))
    rate = task.optimizer(task.model().parameters()).defaults["lr"]
    assert protocol.schedule == f"LambdaLR(lr_lambdas=(warmup_cosine(ticks=123)), base_lrs=({rate})) over 123 ticks"
    assert protocol.evaluate_every == task.evaluate_every


def test_what_the_user_asks_takes_the_place_of_the_tasks_own(line):
    asked = Asked(
        task=line(),
        candidates=["bf16"],
        seeds=[1],
        target=0.5,
        budget_attempts=7,
        budget_seconds=3.0,
        evaluate_every=24,
        to_the_end=True,
        threads=3,
        margin_examples=0.2,
        margin_quality=0.03,
        alpha=0.1,
    )
    _, protocol = declare(asked)
    for field in (
        "target",
        "budget_attempts",
        "budget_seconds",
        "evaluate_every",
        "threads",
        "margin_examples",
        "margin_quality",
        "alpha",
    ):
        assert getattr(protocol, field) == getattr(asked, field)
    assert not protocol.stop_at_target
    assert protocol.target_from == "the user"


def test_declaring_twice_gives_the_same_hash_and_leaves_random_state_alone(line):
    asked = Asked(task=line(), candidates=["fp32", "bf16"], seeds=[0, 1])
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = declare(asked)[1]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert declare(asked)[1].hash == first.hash


def test_the_hash_is_that_of_the_weights_of_a_run(line):
    task, protocol = declare(Asked(task=line(), candidates=["fp32"], seeds=[3]))
    assert train(task, Settings(budget_attempts=1), seed=3).initial_digest == protocol.initial_weights["3"]


def test_the_data_are_loaded_once(line):
    asked = line(model="assert self.loads == 1")
    file = Path(asked.removesuffix(":Line"))
    file.write_text(file.read_text().replace("        x =", "        self.loads = getattr(self, 'loads', 0) + 1\n        x ="))
    declare(Asked(task=asked, candidates=["fp32"], seeds=[0, 1]))


def test_an_edit_of_the_loss_alone_makes_another_protocol(line):
    asked = Asked(task=line(), candidates=["fp32"], seeds=[0])
    first = declare(asked)[1]
    file = Path(asked.task.removesuffix(":Line"))
    file.write_text(file.read_text().replace("mse_loss(model(microbatch", "l1_loss(model(microbatch"))
    second = declare(asked)[1]
    assert first_difference(first, second)[0] == "code_digest"


@pytest.mark.parametrize("place", ["args", "keywords"])
def test_a_partials_arguments_are_written_out(place):
    def cut(factor, tick):
        return factor

    words = {}
    for factor in (0.5, 0.25):
        partial = functools.partial(cut, factor) if place == "args" else functools.partial(cut, factor=factor)
        words[factor] = setting_words(partial)
        assert words[factor].endswith(f"({'' if place == 'args' else 'factor='}{factor})")
    assert words[0.5] != words[0.25]


ADDRESSES = """
import functools
import torch
from truestep.tasks import Digits

class Shown(torch.nn.Linear):
    def extra_repr(self):
        return f"{object()} {torch.relu} {(lambda: 1)} {functools.partial(print, sep=print)}"

class Own(Digits):
    def model(self):
        return torch.nn.Sequential(Shown(64, 10))
    def optimizer(self, parameters):
        return torch.optim.SGD([{"params": list(parameters), "note": functools.partial(max, key=lambda x: x)}], lr=1e-2)
    def scheduler(self, optimizer, ticks):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: 1 - tick / ticks)
"""
HASH = """
import json
kept = [object() for _ in range(10**6)]  # so that addresses are others
from truestep.compare.declare import Asked, declare
from truestep.compare import Protocol
print(declare(Asked(task="own.py:Own", candidates=["fp32"], seeds=[0]))[1].hash)
print(Protocol.from_dict(json.load(open("whole.json"))).hash)
print(hash("another in every process"))
"""


def test_a_hash_is_the_same_in_every_process_whatever_a_tasks_objects_show_of_themselves(tmp_path, monkeypatch, request):
    whole = request.getfixturevalue("declare")()
    (tmp_path / "own.py").write_text(ADDRESSES)
    (tmp_path / "whole.json").write_bytes(whole.canonical())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    _, protocol = declare(Asked(task="own.py:Own", candidates=["fp32"], seeds=[0]))
    if FULL:
        ended = subprocess.run([sys.executable, "-c", HASH], capture_output=True, text=True, check=False)
    else:
        ended = ready.run("-c", HASH)
    *found, of_words = ended.stdout.split()
    assert found == [protocol.hash, whole.hash], ended.stderr
    if sys.flags.hash_randomization:
        assert int(of_words) != hash("another in every process")


BASE = Asked(task="digits", candidates=["fp32", "bf16"], seeds=[0])


OTHER = {
    "task": "digits-conv",
    "candidates": ["fp32", "fp16"],
    "seeds": [1],
    "target": 0.9,
    "budget_attempts": 9,
    "budget_seconds": 9.0,
    "evaluate_every": 64,
    "to_the_end": True,
    "threads": 2,
    "margin_examples": 0.1,
    "margin_quality": 0.1,
    "alpha": 0.01,
    "fail_if": ["quality"],
    "jobs": 2,
    "timeout": 9.0,
}


@pytest.mark.parametrize(("timeout", "startup"), [(None, None), (9.0, 60.0), (90.0, 90.0)])
def test_startup_and_warm_up_have_the_runs_limit_once_more_and_a_minute_at_the_least(timeout, startup):
    protocol = declare(dataclasses.replace(BASE, timeout=timeout))[1]
    assert (protocol.timeout_seconds, protocol.startup_timeout_seconds) == (timeout, startup)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Asked) if field.name != "is_pilot"])
def test_whatever_is_asked_otherwise_has_another_hash(field):
    base, other = (declare(asked)[1] for asked in (BASE, dataclasses.replace(BASE, **{field: OTHER[field]})))
    assert base.hash != other.hash
    assert first_difference(base, other) is not None


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"task": "mnist"}, errors.TaskError, "mnist"),
        ({"task": "nowhere.py:Task"}, errors.TaskError, "nowhere.py"),
        ({"candidates": []}, errors.ProtocolError, "no candidates"),
        ({"candidates": ["fp64"]}, errors.PolicyError, "fp64"),
        ({"candidates": ["fp32", "fp16 rate=1"]}, errors.ProtocolError, "'rate' is no key"),
        (
            {"candidates": ["fp32", "fp16 scale=none"]},
            errors.PolicyError,
            "'fp16 scale=none': compute=float16 with loss scaling off",
        ),
        ({"candidates": ["fp32", "fp16 accumulate=65"]}, errors.UsageError, "microbatches"),
        ({"candidates": ["fp32", "fp16 clock=tokens:5"]}, errors.UsageError, "tokens"),
        ({"candidates": ["fp32", " fp32 "]}, errors.ProtocolError, "stands twice"),
        ({"seeds": []}, errors.ProtocolError, "no seeds"),
        ({"target": float("nan")}, errors.ProtocolError, "target is no number"),
        ({"target": 0.0}, errors.ProtocolError, "hundredth of a target of 0"),
        ({"budget_attempts": 0}, errors.ProtocolError, "budget_attempts has to be 1 or more"),
        ({"budget_seconds": -1.0}, errors.ProtocolError, "budget_seconds"),
        ({"evaluate_every": 0}, errors.ProtocolError, "evaluate_every has to be 1 or more"),
        ({"threads": 0}, errors.ProtocolError, "threads has to be 1 or more"),
        ({"margin_quality": 0.0}, errors.ProtocolError, "margin_quality"),
        ({"alpha": 0.0}, errors.ProtocolError, "alpha"),
        ({"candidates": ["fp32", "fp32 again"], "fail_if": ["quality"]}, errors.ProtocolError, "about none"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(changes, error, named):
    with pytest.raises(error, match=named):
        declare(dataclasses.replace(BASE, **changes))


@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        ("fp64", errors.PolicyError),
        ("fp16 scale=static:0.1", errors.PolicyError),
        ("fp16 scale=dynamic:1e+300", errors.PolicyError),
        ("fp16 accumulate=65", errors.UsageError),
        ("fp16 clock=tokens:5", errors.UsageError),
    ],
)
def test_what_a_candidate_cannot_have_names_the_candidate_and_what_to_do(candidate, error):
    with pytest.raises(error) as caught:
        declare(dataclasses.replace(BASE, candidates=["fp32", "bf16", candidate]))
    assert candidate in caught.value.summary
    assert caught.value.hint


def test_float16_without_a_scale_is_raced_where_it_says_that_it_is_meant():
    with pytest.raises(errors.PolicyError) as caught:
        declare(dataclasses.replace(BASE, candidates=["fp32", "fp16 scale=none"]))
    assert caught.value.hint.endswith("scale=none underflow=allowed")
    meant = "fp16 scale=none underflow=allowed"
    assert declare(dataclasses.replace(BASE, candidates=["fp32", meant]))[1].candidates == ("fp32", meant)
    assert declare(dataclasses.replace(BASE, candidates=["fp32 scale=none"]))[1].candidates == ("fp32 scale=none",)


def test_a_condition_on_seconds_that_this_device_emulates_is_refused(monkeypatch):
    asked = dataclasses.replace(BASE, candidates=["fp32", "bf16", "fp16"], fail_if=["time>1.1x"])
    monkeypatch.setattr(Policy, "emulated", lambda self, device: self.name == "fp16")
    with pytest.raises(errors.ProtocolError, match=r"time>1\.1x can never be judged of fp16"):
        declare(asked)
    assert declare(dataclasses.replace(asked, candidates=["fp32", "bf16"]))[1].fail_if == ("time>1.1x",)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the CUDA device here has tf32")
def test_a_policy_that_the_device_lacks_is_refused():
    with pytest.raises(errors.PolicyError, match="tf32"):
        declare(dataclasses.replace(BASE, candidates=["fp32", "tf32"]))


def test_a_task_without_a_target_needs_one(line):
    with pytest.raises(errors.ProtocolError, match="declares no target") as caught:
        declare(Asked(task=line(target="None"), candidates=["fp32"], seeds=[0]))
    assert "--target" in caught.value.hint
    assert declare(Asked(task=line(target="None"), candidates=["fp32"], seeds=[0], target=0.1))[1].target == 0.1


def test_a_task_whose_code_fails_is_a_run_error_with_its_line(line, tmp_path):
    with pytest.raises(errors.RunError, match=r"line\.py:14 in model: ZeroDivisionError") as caught:
        declare(Asked(task=line(model="1 / 0"), candidates=["fp32"], seeds=[0]))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not list(tmp_path.glob("truestep*"))


LATER = """self.built = getattr(self, "built", 0) + 1
        if self.built == 2:  # the first is described, the second draws a seed's weights
            raise KeyError("later")"""
UNSEEN = """class Unseen(torch.nn.Linear):
            def __repr__(self):
                raise KeyError("unseen")
        return Unseen(1, 1)"""


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (LATER, "in model: KeyError: 'later'"),
        (UNSEEN, "in __repr__: KeyError: 'unseen'"),
        ("raise SystemExit(4)", "SystemExit: 4"),
    ],
)
def test_whatever_of_the_task_fails_while_it_is_described_is_no_fault_of_ours(line, model, named):
    with pytest.raises(errors.RunError, match=named) as caught:
        declare(Asked(task=line(model=model), candidates=["fp32"], seeds=[0]))
    assert "line.py:" in caught.value.summary
    assert caught.value.hint == "the task's own code failed before the comparison began"
