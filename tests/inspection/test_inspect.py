"""An inspection tells what is lost, as derived and as measured; its scales keep their word; and nothing of it stays."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.inspection.models import odd, pulled
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.errors import LossError, PolicyError, RunError, TaskError, TruestepError, UsageError
from truestep.formats import FORMATS, share_flushed
from truestep.inspection.inspect import inspect
from truestep.inspection.result import Inspection
from truestep.inspection.scales import scale_range
from truestep.tasks import Logistic

SIGMA = 1e-7


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_the_share_flushed_of_normal_gradients_is_the_formulas(scale: float) -> None:
    update, windows = pulled(SIGMA, scale=LossScale.static(scale))
    found = inspect(update, windows, attempts=1, after=0).of("layer", "activation gradients")
    expected = share_flushed(SIGMA, scale)
    error = 5 * math.sqrt(expected * (1 - expected) / found.spread.nonzero)  # five standard deviations of a binomial share
    share = found.in_use.share("flushed")
    assert share is not None
    assert abs(share - expected) < error
    assert found.measured is not None
    assert found.measured.dtypes == ("fp16",)
    assert found.measured.flushed == found.in_use.flushed
    assert found.measured.elements == found.spread.nonzero


def test_the_range_of_scales_loses_nothing_and_beyond_it_something_is_lost() -> None:
    update, windows = pulled(SIGMA, count=16)
    scales = inspect(update, windows, attempts=1, after=0).of("layer", "activation gradients").scales
    assert scales is not None
    assert scales.lossless is not None
    low, high = scales.lossless
    for exponent, name in ((low - 1, "flushed"), (low, None), (high, None), (high + 1, "overflowed")):
        again = inspect(update, windows, attempts=1, after=0, scale=LossScale.static(2.0**exponent))
        row = again.of("layer", "activation gradients")
        assert row.measured is not None
        for each in ("flushed", "overflowed"):
            measured, predicted = getattr(row.measured, each), getattr(row.in_use, each)
            assert measured == predicted
            assert (measured > 0) == (each == name)


@pytest.mark.parametrize("scale", [1.0, 4096.0])
def test_under_bf16_its_own_numbers_are_counted_in_original_units_and_flush_as_the_formula_says(scale: float) -> None:
    update, windows = pulled(SIGMA, policy="bf16", scale=LossScale.static(scale))
    row = inspect(update, windows, attempts=1, after=0).of("layer", "activation gradients")
    expected = share_flushed(SIGMA, 1.0)
    error = 5 * math.sqrt(expected * (1 - expected) / row.spread.nonzero)
    assert row.spread.elements == 64**2
    assert row.formats["fp16"].share("flushed") == pytest.approx(expected, abs=error)
    plain, given = pulled(SIGMA, policy="bf16")
    assert row.spread == inspect(plain, given, attempts=1, after=0).of("layer", "activation gradients").spread
    assert row.in_use == row.spread.losses(FORMATS["bf16"], scale=int(math.log2(scale)))
    assert row.between is None


def test_between_the_first_and_the_last_the_scales_go_by_fp16s_own_numbers_and_the_share_flushed_does_not() -> None:
    def made(scale: LossScale | None) -> tuple[Any, Inspection]:
        update, windows = pulled(SIGMA, scale=scale, count=16, factors=(1.0, 64.0, 1.0))
        found = inspect(update, windows, attempts=3, after=2, scale=scale)
        return found.of("layer", "activation gradients"), found

    row, _ = made(LossScale.static(8.0))
    assert (row.spread.elements, row.between.elements) == (2 * 16**2, 16**2)
    assert row.between.largest > 32 * row.spread.largest
    assert row.in_use == row.spread.losses(FORMATS["fp16"], scale=3)
    assert row.measured.flushed == row.in_use.flushed > 0
    expected = share_flushed(SIGMA, 8.0)
    error = 5 * math.sqrt(expected * (1 - expected) / row.spread.nonzero)
    assert row.in_use.share("flushed") == pytest.approx(expected, abs=error)
    _, high = row.scales.lossless
    assert scale_range(row.spread, FORMATS["fp16"]).lossless[1] > high + 4  # type: ignore[index]
    for exponent, overflows in ((high, False), (high + 1, True)):
        again, found = made(LossScale.static(2.0**exponent))
        assert (again.between.infinities > 0) == overflows
        assert again.measured.overflowed == 0
        assert again.overflowed_at == (exponent if overflows else None)
        assert again.scales.lossless == row.scales.lossless  # of what overflowed, the scale alone is known, and it suffices
        assert found.all("activation gradients").between == again.between


@pytest.mark.parametrize("policy", ["bf16", "fp16"])
def test_gradients_at_an_optimizer_that_divides_by_the_scale_itself_are_those_of_one_that_does_not(policy: str) -> None:
    found = []
    for fused in (True, False):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        update: Update[Any] = Update(
            model,
            torch.optim.AdamW(model.parameters(), lr=0.01, fused=fused),
            loss=lambda model, x: model(x).float().square().mean(),
            policy=policy,
            scale=LossScale.static(1024.0),
        )
        windows = [[torch.randn(4, 4), torch.randn(4, 4)] for _ in range(3)]
        found.append(inspect(update, windows, attempts=3, after=2).of("", "gradients at the optimizer"))
    assert found[0].spread.nonzero > 0
    assert (found[0].spread, found[0].between) == (found[1].spread, found[1].between)


def test_a_scale_that_overflows_is_inspected_too_and_its_skip_said() -> None:
    update, windows = pulled(1.0, count=4, scale=LossScale.static(2.0**18))
    found = inspect(update, windows, attempts=2, after=1)
    assert [each.completed for each in found.attempts] == [False, False]
    assert found.attempts[0].reason == "backward overflow"
    row = found.of("layer", "activation gradients")
    assert row.in_use.overflowed > 0
    assert row.measured is not None
    assert row.measured.overflowed == row.in_use.overflowed
    assert row.overflowed_at == found.all("activation gradients").overflowed_at == 18
    assert row.scales is not None
    assert row.scales.lossless is None or row.scales.lossless[1] < 18
    assert found.movements == ()
    assert any("were skipped" in note for note in found.notes)


def test_what_is_tied_called_twice_in_place_frozen_or_without_gradient_is_counted_once_each() -> None:
    update, windows = odd()
    found = inspect(update, windows, attempts=2, after=2)
    count = {(each.layer, each.kind): each.spread.elements for each in found.numbers}
    examples = 2 * 6  # of both attempts
    assert count["twice", "activations"] == 2 * examples * 3 * 6  # twice in a microbatch
    assert count["twice", "activation gradients"] == 2 * examples * 3 * 6
    assert count["relu", "activation gradients"] == examples * 3 * 6
    assert count["watcher", "activations"] == examples * 6
    assert ("watcher", "activation gradients") not in count
    assert ("frozen", "weight gradients") not in count
    assert count["frozen", "activation gradients"] == examples * 3 * 6
    assert count["head", "weights"] == 2 * 36
    assert ("tied", "weights") not in count
    assert count["head", "weight gradients"] == 2 * 2 * 36
    assert count["twice", "weight gradients"] == 2 * 2 * 42
    assert count["recurrent", "activations"] == examples * 3 * 6 + examples * 6  # a tuple: outputs and last state
    assert any("tied shares a parameter with head" in note for note in found.notes)
    for each in found.numbers:  # float32 ran the first microbatch alone, which has no gradient at the optimizer
        assert (each.measured is None) == (each.kind == "gradients at the optimizer")
        assert each.measured is None or each.measured.unmatched == 0
    assert found.of("twice", "activations").measured.elements <= 2 * 4 * 3 * 6  # type: ignore[union-attr]  # the first microbatch
    for kind in {each.kind for each in found.numbers}:
        parts = [each.spread.elements for each in found.numbers if each.kind == kind]
        assert found.all(kind).spread.elements == sum(parts)
    json.dumps(found.record(), allow_nan=False)
    assert str(found).startswith("an update, policy bf16 on cpu: 2 attempts inspected after 0 2, 0 skipped")


def state(update: Update[Any]) -> list[Tensor]:
    """All that training goes on from."""
    optimizer = update.optimizers[0]
    moments = [value.to_dense() for held in optimizer.state.values() for value in held.values() if isinstance(value, Tensor)]
    return [*update.model.state_dict().values(), *moments, torch.get_rng_state()]


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("before", [0, 2])
def test_training_goes_on_bit_for_bit_as_if_nobody_had_inspected(policy: str, before: int) -> None:
    results = []
    for inspected in (False, True):
        update, windows = odd(policy)
        torch.manual_seed(7)
        for window in windows[:before]:
            update(window)
        gradients = [p.grad for p in update.model.parameters()]
        if inspected:
            inspect(update, windows, attempts=2, after=4)
        assert all(p.grad is held for p, held in zip(update.model.parameters(), gradients, strict=True))
        outcomes = [update(window) for window in windows]
        results.append((state(update), update.state_dict(), [(each.loss, each.lr, each.weight_check) for each in outcomes]))
    (left, numbers, outcomes), (right, again, others) = results
    assert all(torch.equal(one, other) for one, other in zip(left, right, strict=True))
    assert numbers == again
    assert outcomes == others


def test_masters_go_on_bit_for_bit_too() -> None:
    results = []
    for inspected in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        update: Update[Any] = Update(
            model,
            lambda params: torch.optim.AdamW(params, lr=0.01),
            loss=lambda model, x: model(x).float().square().mean(),
            policy="bf16-master",
        )
        windows = [[torch.randn(4, 3)] for _ in range(3)]
        update(windows[0])
        if inspected:
            found = inspect(update, windows, attempts=2, after=2)
            assert found.of("0", "weight gradients").format == "bf16"
        for window in windows:
            update(window)
        results.append([*model.state_dict().values(), *update.weights().values()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_no_hook_stays() -> None:
    update, windows = odd()
    steps = len(update.optimizers[0]._optimizer_step_pre_hooks)
    inspect(update, windows, attempts=1, after=0)
    for module in update.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(not p._backward_hooks for p in update.model.parameters())
    assert len(update.optimizers[0]._optimizer_step_pre_hooks) == steps


def test_float32_is_predicted_alone() -> None:
    found = inspect(Logistic(), policy="fp32", attempts=1, after=0)
    assert all(each.measured is None for each in found.numbers)
    assert found.all("activation gradients").formats["fp16"].elements > 0
    assert found.seed == 0


def test_a_task_is_inspected_without_touching_the_random_state() -> None:
    before = torch.get_rng_state()
    found = inspect("logistic", policy="bf16", attempts=3, after=5, microbatches=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert [each.after for each in found.attempts] == [0, 2, 5]
    assert found.microbatches == 2


def test_a_model_of_zeros_says_so() -> None:
    model = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(model.weight)
    update: Update[Any] = Update(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).float().sum() * 0, policy="bf16"
    )
    found = inspect(update, [[torch.ones(2, 2)]], attempts=1, after=0)
    assert found.of("", "activation gradients").note == "every number is 0"
    assert found.of("", "weights").spread.nonzero == 0
    assert any(each.action == "look" for each in found.advice)
    json.dumps(found.record(), allow_nan=False)


def test_weights_that_are_not_finite_are_named() -> None:
    update, windows = pulled(1.0, policy="bf16", count=4)
    with torch.no_grad():
        update.model.layer.weight[0, 0] = math.nan  # type: ignore[union-attr, index, operator]  # nn.Module's attributes
    found = inspect(update, windows, attempts=1, after=0)
    assert found.of("layer", "weights").note == "0 infinite and 1 NaN of 12"
    assert any(each.action == "look" and "weights" in each.text for each in found.advice)
    json.dumps(found.record(), allow_nan=False)


def test_a_compiled_model_is_seen_uncompiled_and_that_is_said() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model.compile(backend="eager")
    update: Update[Any] = Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: model(x).float().square().mean(),
        policy="bf16",
        check_weight=False,
    )
    found = inspect(update, [[torch.ones(2, 2)]], attempts=1, after=0)
    assert found.of("0", "activations").spread.elements == 6
    assert any("ran uncompiled" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attempts": 0}, "0 attempts are to be inspected"),
        ({"attempts": 3, "after": 1}, "3 attempts are to be inspected, with 1 before"),
        ({"windows": [[1]]}, "a task brings its own windows"),
        ({"scale": LossScale.static(1000.0)}, "no power of two"),
    ],
)
def test_what_cannot_be_inspected_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        inspect(Logistic(), **given)


def test_an_update_needs_windows_and_a_task_a_name() -> None:
    update, _ = pulled(1.0, count=4)
    with pytest.raises(UsageError, match="inspected on windows"):
        inspect(update)
    with pytest.raises(TaskError, match="no task is called"):
        inspect("nothing")


@pytest.mark.parametrize("at", [1, 2, 4, 8])
def test_an_exception_of_the_loss_leaves_all_as_it_was_wherever_it_is_raised(at: int) -> None:
    """Where operators are seen, in the float32 run, in the first attempt, and in the very last microbatch."""
    update, windows = odd()
    before = copy.deepcopy(state(update))
    calls = []

    def loss(model: Any, microbatch: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == at:
            raise RuntimeError("enough")
        result: Tensor = model(microbatch).float().square().mean()
        return result

    object.__setattr__(update.plan, "loss", loss)
    with pytest.raises(RuntimeError, match="enough"):
        inspect(update, windows, attempts=3, after=2)
    assert all(torch.equal(one, other) for one, other in zip(before, state(update), strict=True))
    assert all(not module._forward_hooks for module in update.model.modules())
    assert len(calls) == at


class _Wrong(Logistic):
    """A task whose loss is wrong."""

    name = "wrong"

    def __init__(self, loss: Any, workers: int | None = None) -> None:
        self._loss, self.workers = loss, workers

    def loss(self, model: nn.Module, microbatch: Any) -> Tensor:
        result: Tensor = self._loss(model(microbatch[0]))
        return result


def test_the_processes_that_read_for_a_task_end_with_an_inspection_that_fails() -> None:
    def raising(_: Tensor) -> Tensor:
        assert multiprocessing.active_children()
        raise ValueError("enough of this")

    with pytest.raises(RunError, match=r"test_inspect\.py:\d+ in raising: ValueError: enough of this") as caught:
        inspect(_Wrong(raising, workers=1), policy="bf16", attempts=1, after=0)
    assert caught.value.__cause__ is not None  # what holds the frames is still there
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("loss", "words"), [(lambda _: 1.0, "the loss is a float"), (lambda out: out, "the loss has the shape")])
def test_a_loss_that_is_none_is_told_with_its_line(loss: Any, words: str) -> None:
    with pytest.raises(LossError, match=rf"test_inspect\.py:\d+: {words}"):
        inspect(_Wrong(loss), policy="bf16", attempts=1, after=0)


class _Recurrent(Logistic):
    """A task whose layer has no float16 kernel on the CPU."""

    name = "recurrent"

    def model(self) -> nn.Module:
        return nn.LSTM(1, 3, batch_first=True)

    def loss(self, model: nn.Module, microbatch: Any) -> Tensor:
        result: Tensor = model(microbatch[0][..., None])[0].float().mean()
        return result


def test_an_lstm_in_fp16_on_the_cpu_is_told_with_what_to_choose() -> None:
    with pytest.raises(PolicyError, match="has no float16 kernel on this device") as caught:
        inspect(_Recurrent(), policy="fp16", attempts=1, after=0, device="cpu")
    assert "the policy bf16" in str(caught.value.hint)


def test_an_empty_window_is_refused_in_words() -> None:
    update, _ = pulled(1.0, policy="bf16", count=4)
    with pytest.raises(TruestepError) as caught:
        inspect(update, [[]], attempts=1, after=0)
    assert "window" in str(caught.value)
