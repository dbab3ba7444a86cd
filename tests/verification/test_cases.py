"""A loop with one mistake fails its verification and is told which; its repaired twin passes. Then what no weight repairs."""

import pytest
import torch
from torch import nn

from tests.verification.cases.loops import Loop, network, pairs, squares
from tests.verification.cases.orders import ORDERS
from tests.verification.cases.weights import WEIGHTS
from tests.verification.cases.wholes import RAISING, WHOLES, penalty_on_a_scaled_gradient
from truestep.verification.verify import verify

CASES = [pytest.param(case, id=case.__name__) for case in ORDERS + WEIGHTS + WHOLES]


def verification(case):
    return verify(case.step, case.loop.windows, **case.loop.verified)


@pytest.mark.parametrize("make", CASES)
def test_a_mistake_is_named(make):
    case = make(True)
    result = verification(case)
    assert not result.passed
    assert result.reading is not None, result
    assert result.reading.kind == case.kind, result
    if case.factor is not None:
        assert result.reading.factor == pytest.approx(case.factor)
    assert result.reading.sentence in str(result)
    assert result.coupling is None


@pytest.mark.parametrize("make", CASES)
def test_its_repaired_twin_passes(make):
    result = verification(make(False))
    assert result.passed, result
    assert result.reading is None
    assert result.coupling is None


def accumulated(loop):
    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.finish()

    return verify(step, loop.windows, **loop.verified)


@pytest.mark.parametrize(
    ("layer", "kind"), [(nn.BatchNorm1d(8), "batch-norm"), (nn.Dropout(0.5), "dropout")], ids=["BatchNorm", "Dropout"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_that_couples_the_examples_is_named_with_its_place(layer, kind, dtype):
    result = accumulated(
        Loop(network(nn.Tanh(), layer, nn.Dropout(0.1) if kind == "dropout" else nn.Tanh()), pairs(), squares, dtype=dtype)
    )
    assert not result.passed
    assert result.reading is None, result
    assert (result.coupling.module, result.coupling.kind) == ("2", kind)


def test_a_contrastive_loss_is_named():
    def contrastive(model, microbatch):
        x, y = microbatch
        rows = nn.functional.normalize(model(x).float(), dim=1) @ nn.functional.normalize(y, dim=1).T
        return nn.functional.cross_entropy(rows / 0.2, torch.arange(len(x)))

    result = accumulated(Loop(network(), pairs(), contrastive, dtype=torch.bfloat16))
    assert not result.passed
    assert result.reading is None, result
    assert (result.coupling.module, result.coupling.kind) == (None, "loss")


@pytest.mark.parametrize("make", RAISING, ids=[case.__name__ for case in RAISING])
def test_what_a_loop_raises_comes_through_and_its_state_is_as_before(make):
    case = make(True)
    before = [parameter.detach().clone() for parameter in case.loop.model.parameters()]
    with pytest.raises((RuntimeError, ValueError)) as raised:
        verification(case)
    assert case.kind in str(raised.value)
    assert all(map(torch.equal, case.loop.model.parameters(), before))
    assert not any(parameter._backward_hooks for parameter in case.loop.model.parameters())
    assert verification(make(False)).passed


@pytest.mark.parametrize("factor", [3.0, 255.0])
def test_a_penalty_that_is_wrong_by_another_factor_is_beyond_and_nothing_is_blamed(factor):
    """Its part of the gradient is of another size than that of the rest, and only whole losses can be told apart."""
    result = verification(penalty_on_a_scaled_gradient(True, factor=factor))
    assert not result.passed
    assert result.reading is None, result
    assert result.coupling is None, result
    assert "is no combination of the microbatches" in result.remainder


def test_a_gradient_inside_of_the_loss_is_seen_by_whatever_name_it_is_taken_and_also_under_autocast():
    from torch.autograd import grad  # noqa: PLC0415 - the other name

    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def penalised(model, microbatch, scale=1.0):
        real, fake = microbatch
        between = ((real + fake) / 2).requires_grad_()
        (gradient,) = grad(model(between).float().sum() * scale, between, create_graph=True)
        return (model(fake) - model(real)).float().mean() + 10 * (gradient.float().norm(dim=1) - 1).square().mean()

    def step(window):
        optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = penalised(critic, microbatch, scale=scaler.get_scale())
            scaler.scale(loss / len(window)).backward()
        scaler.step(optimizer)
        scaler.update()

    windows = [[(torch.randn(16, 4), torch.randn(16, 4) + 2)] for _ in range(2)]
    result = verify(step, windows, model=critic, optimizer=optimizer, loss=penalised, scale=scaler)
    assert not result.passed
    assert result.reading is not None, result
    assert (result.reading.kind, result.reading.rule) == ("penalty-still-scaled", "grad-penalty")
