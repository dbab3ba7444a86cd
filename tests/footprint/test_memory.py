"""Predicted memory is the measured one: within a tenth at the peak, to the byte for what stays; nothing stays behind."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.footprint.models import MODELS, loss, update_of, window_of
from tests.profile import FULL
from truestep import LossScale, Policy, Update, windows
from truestep.errors import RunError, UsageError, WindowError
from truestep.footprint import Footprint, memory

EXACT = ("weights", "gradients", "accumulators", "masters", "moments", "batch", "buffers")
OPTIMIZERS = ["adamw fused", "adamw foreach", "adamw", "sgd", "sgd momentum foreach", "sgd fused"]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def holds(found: Footprint) -> None:
    assert found.predicted is not None, found
    assert found.measured is not None, found
    for name in ("first", "later"):
        predicted, measured = getattr(found.predicted, name), getattr(found.measured, name)
        assert predicted.peak_bytes == pytest.approx(measured.peak_bytes, rel=0.1), found
        for kind in EXACT:
            assert getattr(predicted.account.each, kind) == getattr(measured.account.each, kind), (kind, found)


CASES = [
    (name, policy, microbatches, OPTIMIZERS[(3 * row + 2 * column + microbatches) % 6])
    for row, name in enumerate(MODELS)
    for column, policy in enumerate(("fp32", "bf16", "bf16-master"))
    for microbatches in (1, 4)
    if FULL or (row == column == 1 and microbatches == 4)
]


@pytest.mark.parametrize(("name", "policy", "microbatches", "optimizer"), CASES)
def test_a_model_takes_what_was_predicted(name: str, policy: str, microbatches: int, optimizer: str) -> None:
    holds(memory(update_of(name, policy, optimizer), window_of(name, microbatches)))


TASKS = [
    (task, policy, microbatches)
    for task, quick in (("digits-conv", ("fp32", 4)), ("bytes-lm", None))
    for policy in ("fp32", "bf16", "bf16-master")
    for microbatches in (1, 4)
    if FULL or (policy, microbatches) == quick
]


@pytest.mark.parametrize(("task", "policy", "microbatches"), TASKS)
def test_a_task_takes_what_was_predicted(task: str, policy: str, microbatches: int) -> None:
    holds(memory(task, policy=policy, microbatches=microbatches, device="cpu"))


SAVED = [("bf16", 4 * 4096, 3 * 131072), ("fp32", 4 * 8192, 0)]


@pytest.mark.parametrize(("policy", "activations", "casts"), SAVED if FULL else SAVED[:1])
def test_four_linear_layers_save_what_the_table_says(policy: str, activations: int, casts: int) -> None:
    model = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(4)))
    update = Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).sum(), policy=policy)
    found = memory(update, [torch.randn(8, 256)])
    for side in ("predicted", "measured"):
        account = getattr(found, side).later.account
        assert account.each.activations + account.saved_batch_bytes == activations
        assert account.saved_casts_bytes == casts


def test_an_update_of_ones_own_stays_as_it_was() -> None:
    update, window = update_of("convolutional", "bf16-master", "adamw"), window_of("convolutional", 2)
    update(window)
    state = copy.deepcopy([update.model.state_dict(), update.optimizers[0].state_dict(), update.state_dict()])
    random = torch.get_rng_state()
    holds(memory(update, window))
    now = [update.model.state_dict(), update.optimizers[0].state_dict(), update.state_dict()]
    flat = [torch.utils._pytree.tree_leaves(each) for each in (state, now)]
    assert all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in zip(*flat, strict=True))
    assert torch.equal(random, torch.get_rng_state())
    assert update(window).completed


def test_weights_gradients_and_state_are_those_of_the_objects() -> None:
    update, window = update_of("deep", "fp32"), window_of("deep", 1)
    each = memory(update, window).measured.each
    update(window)
    parameters = sum(p.nbytes for p in update.model.parameters())
    state = sum(value.nbytes for each in update.optimizers[0].state.values() for value in each.values())
    assert (each.weights, each.gradients, each.moments) == (parameters, parameters, state)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.frozen = (
            nn.Linear(32, 32, bias=False),
            nn.Linear(32, 32, bias=False),
            nn.Linear(32, 32, bias=False),
        )
        self.two.weight = self.one.weight
        self.frozen.requires_grad_(False)
        self.register_buffer("table", torch.zeros(100))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.frozen(self.two(self.one(x).relu()))
        return out


def test_tied_weights_count_once_and_frozen_ones_have_neither_gradient_nor_moments() -> None:
    torch.manual_seed(0)
    found = memory(Update(Tied(), torch.optim.Adam, loss=loss, policy="fp32"), [(torch.randn(4, 32), torch.zeros(4).long())])
    holds(found)
    each, one = found.predicted.each, 32 * 32 * 4
    assert (each.weights, each.gradients, each.moments, each.buffers) == (2 * one, one, 2 * one + 4, 400)
    assert (found.parameters, found.frozen) == (2 * 32 * 32, 32 * 32)


def test_parameters_that_are_views_of_one_storage_count_it_once() -> None:
    model, flat = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)), torch.randn(512)
    for place, layer in enumerate(model):
        layer.weight.data = flat[place * 256 : (place + 1) * 256].view(16, 16)
    found = memory(Update(model, torch.optim.SGD, loss=lambda model, x: model(x).sum()), [torch.randn(4, 16)])
    holds(found)
    assert found.measured.each.weights == 2048


class Checkpointed(nn.Module):
    def __init__(self, active: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4))
        self.active = active

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.active else block(x)
        return x


def test_checkpointed_layers_save_what_crosses_their_edges_alone_and_take_what_was_predicted() -> None:
    batch, width, inner, blocks = 128, 64, 256, 4
    window = [(torch.randn(batch, width), torch.zeros(batch).long())]
    plain, kept = (memory(Update(Checkpointed(active), torch.optim.SGD, loss=loss), window) for active in (False, True))
    edge, inside = 4 * batch * width, 2 * 4 * batch * inner  # float32; inside: what goes into GELU, and into the second Linear
    inputs = (blocks - 1) * edge  # the first block's is the batch
    ends = edge + 4  # of the loss: log-probabilities and a count
    for side in ("predicted", "measured"):
        each = [getattr(found, side).each for found in (plain, kept)]
        assert [one.activations for one in each] == [inputs + blocks * inside + ends, inputs + ends], side
        assert each[1].temporaries > inside, "of one block, computed again in the backward"
    holds(plain)
    holds(kept)


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) * (2.0 if x.sum().item() > 0 else 1.0)
        return out


class Choosing(Reading):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x[x[:, 0] > -100])
        return out


@pytest.mark.parametrize("kind", [Reading, Choosing])
def test_a_model_that_reads_its_data_is_measured_alone_and_says_why(kind: type[nn.Module]) -> None:
    found = memory(Update(kind(), torch.optim.SGD, loss=loss), [(torch.randn(4, 8), torch.zeros(4).long())])
    assert found.predicted is None
    assert "shapes alone do not tell" in str(found)
    assert found.peak_bytes == found.measured.peak_bytes
    assert found.record()["relative_error"] is None


def test_what_the_report_says_of_autocast_and_of_microbatches() -> None:
    found = memory("bytes-lm" if FULL else "digits", policy="bf16", device="cpu", measure=False)
    text = str(found)
    assert "Autocast does not halve memory" in text
    assert "Not measured: a prediction alone was asked for." in text
    fp32, whole = found.beside
    assert (fp32.policy, whole.microbatches) == ("fp32", 1)
    own = found.predicted.each
    assert (fp32.each.weights, fp32.each.gradients, fp32.each.moments) == (own.weights, own.gradients, own.moments)
    assert fp32.each.activations > own.activations
    assert whole.each.gradients == own.gradients
    assert whole.each.activations > 2 * own.activations


def test_a_peak_is_the_sum_of_what_lies_there_and_the_record_is_json() -> None:
    found = memory(update_of("deep", "bf16"), window_of("deep", 2))
    account = found.predicted.first.account
    assert account.peak.total == account.peak_bytes == max(account.phase_bytes.values())
    assert json.loads(json.dumps(found.record(), allow_nan=False))["schema"] == 1


def test_what_cannot_be_asked_is_refused() -> None:
    update = update_of("deep", "fp32")
    with pytest.raises(WindowError, match=r"holds windows\nhint: give one window.*memory\(update, windows\[0\]\)"):
        memory(update, list(windows(window_of("deep", 2), 1)))
    with pytest.raises(UsageError, match="without a window"):
        memory(update)
    with pytest.raises(UsageError, match="its own policy"):
        memory(update, window_of("deep", 1), policy="bf16")
    model = nn.Linear(2, 1)
    searching = Update(model, torch.optim.LBFGS(model.parameters()), loss=lambda model, x: model(x).sum())
    with pytest.raises(UsageError, match="LBFGS evaluates"):
        memory(searching, [torch.ones(1, 2)])
    model.held = (each for each in ())  # a generator has no copy
    with pytest.raises(UsageError, match="cannot be copied"):
        memory(Update(model, torch.optim.SGD, loss=lambda model, x: model(x).sum()), [torch.ones(1, 2)])


def summed(model: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = model(x).float().square().mean()
    return out


WIDTHS = torch.tensor([1.0, 2.0, 3.0])
CONSTANTS = {
    "a python number": lambda model, x: 0.001 * model(x).sum(),
    "a numpy number": lambda model, x: np.float64(0.5) * model(x).sum(),
    "made in the loss": lambda model, x: (torch.tensor([1.0, 2.0, 3.0]) * model(x)).sum(),
    "read in the loss": lambda model, x: torch.tensor(2.0).item() * model(x).sum(),
    "made outside": lambda model, x: (WIDTHS * model(x)).sum(),
    "a view of one made outside": lambda model, x: (WIDTHS.detach().view(1, 3) * model(x)).sum(),
    "read of one made outside": lambda model, x: WIDTHS[1].item() * model(x).sum(),
}


@pytest.mark.parametrize("name", CONSTANTS if FULL else ["a python number", "read of one made outside"])
def test_constants_of_a_loss_are_no_hindrance_to_a_prediction(name: str) -> None:
    holds(memory(Update(nn.Linear(8, 3), torch.optim.SGD, loss=CONSTANTS[name], policy="fp32"), [torch.randn(4, 8)] * 2))


SHAPES = {
    "1d": (lambda: nn.Conv1d(5, 7, 3, stride=2), (2, 5, 40)),
    "depthwise": (lambda: nn.Conv2d(20, 20, 5, groups=20, padding=2), (2, 20, 9, 9)),
    "3d": (lambda: nn.Conv3d(3, 17, 3), (2, 3, 6, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(9, 33, 3, stride=2), (2, 9, 6, 6)),
    "a product of odd widths": (lambda: nn.Linear(37, 211), (33, 37)),
    "recurrent": (lambda: nn.Sequential(nn.Linear(16, 16), First(nn.GRU(16, 24))), (6, 4, 16)),
    "normalized and dropped": (lambda: nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Dropout(0.3)), (8, 16)),
}


class First(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)[0]
        return out


@pytest.mark.parametrize("policy", ["bf16", "fp32"] if FULL else ["bf16"])
@pytest.mark.parametrize("name", SHAPES if FULL else ["depthwise", "a product of odd widths"])
def test_a_kernel_takes_inside_what_it_took_alone(name: str, policy: str) -> None:
    made, shape = SHAPES[name]
    found = memory(Update(made(), torch.optim.SGD, loss=summed, policy=policy), [torch.randn(shape)])
    holds(found)
    assert found.workspaces_measured
    assert f"of {found.workspaces_measured} convolutions, products and LSTM layers" in str(found)


def test_a_format_without_a_kernel_is_told_as_such() -> None:
    update = Update(First(nn.LSTM(16, 24)), torch.optim.SGD, loss=summed, policy="fp16-master")
    with pytest.raises(RunError, match="without a kernel for this format") as caught:
        memory(update, [torch.randn(3, 2, 16)])
    assert "bf16" in caught.value.hint


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"] if FULL else ["bf16"])
def test_a_kernel_that_whole_numbers_lack_is_no_fault_of_the_policy(policy: str) -> None:
    def forgetful(model: nn.Module, microbatch: Any) -> Tensor:
        x, labels = microbatch
        return model(x).float().mean() + nn.functional.cross_entropy(x.long(), labels)

    update = Update(nn.Linear(8, 3), torch.optim.SGD, loss=forgetful, policy=policy)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        memory(update, [(torch.ones(2, 8), torch.zeros(2).long())])


def test_where_neither_shapes_nor_a_measurement_tell_there_is_no_footprint() -> None:
    with pytest.raises(RunError, match="shapes alone do not tell"):
        memory(Update(Reading(), torch.optim.SGD, loss=loss), [(torch.randn(4, 8), torch.zeros(4).long())], measure=False)


def test_of_sparse_gradients_the_report_says_that_shapes_do_not_tell_their_size() -> None:
    update = Update(nn.Embedding(50, 4, sparse=True), torch.optim.SGD, loss=summed, policy="fp32")
    assert "size of a sparse gradient" in str(memory(update, [torch.randint(0, 50, (8,))], measure=False))


@pytest.mark.parametrize("policy", ["fp32", "bf16"] if FULL else ["bf16"])
@pytest.mark.parametrize("both_ways", [False, True] if FULL else [True])
def test_the_record_that_an_lstm_on_the_cpu_keeps_is_predicted_to_the_byte(policy: str, both_ways: bool) -> None:
    made = First(nn.LSTM(16, 24, 2 if both_ways else 1, bidirectional=both_ways))
    found = memory(Update(made, torch.optim.SGD, loss=summed, policy=policy), [torch.randn(6, 4, 16)] * 2)
    holds(found)
    assert found.predicted.each.activations == found.measured.each.activations > 0


@pytest.mark.parametrize("level", [None, "99", "3"] if FULL else [None, "3"])
def test_the_users_own_word_on_how_loud_the_profiler_is_stands(level: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    if level is not None:
        monkeypatch.setenv("KINETO_LOG_LEVEL", level)
    memory(an_update(), [torch.ones(2, 4)])
    assert os.environ.get("KINETO_LOG_LEVEL") == level


def an_update() -> Update[Any]:
    return Update(nn.Linear(4, 2), torch.optim.SGD, loss=summed, policy="fp32")


SAID_BY_NOBODY = {"seed": 1, "device": "cpu", "scale": LossScale.static(2.0), "measure": False, "window": [torch.ones(2, 4)]}


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        *(({"params": 1e6, name: value}, name) for name, value in SAID_BY_NOBODY.items()),
        *(
            ({"what": "update", "window": [torch.ones(2, 4)], name: value}, name)
            for name, value in {"seed": 1, "device": "cpu", "policy": "fp32", "microbatches": 2, "shards": 2}.items()
        ),
        ({"what": "logistic", "window": [torch.ones(2, 4)], "microbatches": 2}, "microbatches"),
        ({"what": "logistic", "optimizer": "sgd"}, "optimizer"),
    ],
)
def test_an_option_that_says_nothing_about_what_is_asked_is_refused_by_its_name(asked: dict[str, Any], option: str) -> None:
    if asked.get("what") == "update":
        asked = asked | {"what": an_update()}
    with pytest.raises(UsageError, match=f"^{option}= says nothing about") as caught:
        memory(**asked)
    assert caught.value.facts["option"] == option


def test_a_policy_of_ones_own_is_taken_as_it_is_and_not_by_its_name() -> None:
    mine = Policy(name="mine", compute=torch.bfloat16, scale=LossScale.none())
    found = memory("logistic", policy=mine, device="cpu", measure=FULL)
    named = memory("logistic", policy="bf16", device="cpu", measure=FULL)
    assert found.policy == "mine"
    assert (found.predicted, found.peak_bytes) == (named.predicted, named.peak_bytes)
