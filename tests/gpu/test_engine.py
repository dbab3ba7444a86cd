"""The engine's laws on a CUDA device, in the formats that only such a device has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, judged, mlp, optimizer_state, poisoned, same, weights
from truestep.engine.gradients import UNDIVIDED, block_norm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
DTYPES = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def on_gpu(data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return data[0].cuda(), data[1].cuda()


@pytest.mark.parametrize("policy", DTYPES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_microbatch_is_bit_equal_to_a_hand_written_loop(policy: str, optimizer: str) -> None:
    by_hand, ours = mlp(width=64).cuda(), mlp(width=64).cuda()
    hand_optimizer, our_optimizer = (OPTIMIZERS[optimizer](m.parameters()) for m in (by_hand, ours))
    scaler = torch.amp.GradScaler("cuda", enabled=policy == "fp16")
    update = truestep.Update(ours, our_optimizer, loss=cross_entropy, policy=policy)
    for seed in range(4):
        data = on_gpu(batch(64, seed))
        hand_optimizer.zero_grad()
        torch.set_float32_matmul_precision("high" if policy == "tf32" else "highest")
        with torch.autocast("cuda", dtype=DTYPES[policy], enabled=DTYPES[policy] is not None):
            loss = cross_entropy(by_hand, data)
        scaler.scale(loss).backward()
        scaler.step(hand_optimizer)
        scaler.update()
        torch.set_float32_matmul_precision("highest")
        assert update([data]).completed
        assert same([w.cpu() for w in weights(by_hand)], [w.cpu() for w in weights(ours)])


@pytest.mark.parametrize("policy", DTYPES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_skipped_attempt_leaves_everything_as_it_was(policy: str, optimizer: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).cuda()
    steps = OPTIMIZERS[optimizer](model.parameters())
    update = truestep.Update(model, steps, loss=cross_entropy, policy=policy)
    for first in (True, False):
        before = [t.cpu() for t in weights(model) + optimizer_state(steps) + list(model.buffers())]
        outcome = update([on_gpu(batch(4)), on_gpu(poisoned(batch(4)))])
        assert outcome.skip is not None
        assert outcome.skip.reason is truestep.Reason.INPUT
        assert same(before, [t.cpu() for t in weights(model) + optimizer_state(steps) + list(model.buffers())])
        if first:
            assert update([on_gpu(batch(4))]).completed


@pytest.mark.parametrize("policy", ["bf16-master", "fp16-master", "bf16-pure"])
def test_narrow_weights_go_on_bit_for_bit_and_stay_on_a_skip(policy: str) -> None:
    def build() -> truestep.Update[tuple[Tensor, Tensor]]:
        return truestep.Update(mlp(width=64).cuda(), OPTIMIZERS["fused adamw"], loss=cross_entropy, policy=policy)

    straight, first, second = build(), build(), build()
    for seed in range(4):
        assert straight([on_gpu(batch(8, seed)), on_gpu(batch(4, seed + 9))]).completed
    for seed in range(2):
        first([on_gpu(batch(8, seed)), on_gpu(batch(4, seed + 9))])
    before = [w.cpu() for w in weights(first.model)]
    assert not first([on_gpu(batch(8)), on_gpu(poisoned(batch(4)))]).completed
    assert same(before, [w.cpu() for w in weights(first.model)])
    with first.in_float32(), second.in_float32():
        second.model.load_state_dict(first.model.state_dict())
    second.optimizers[0].load_state_dict(first.optimizers[0].state_dict())
    state = first.state_dict()
    second.load_state_dict(state)
    for seed in range(2, 4):
        second([on_gpu(batch(8, seed)), on_gpu(batch(4, seed + 9))])
    assert same([w.cpu() for w in straight.weights().values()], [w.cpu() for w in second.weights().values()])
    assert {p.dtype for p in second.model.parameters()} == {straight.plan.policy.weights}


def test_the_random_state_of_the_device_is_replayed_and_then_goes_on() -> None:
    def after(data: tuple[Tensor, Tensor]) -> Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).cuda()
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=cross_entropy)([data])
        return torch.rand(3, device="cuda").cpu()

    assert torch.equal(after(on_gpu(batch(4))), after(on_gpu(poisoned(batch(4)))))


@pytest.mark.parametrize("size", [1, UNDIVIDED, UNDIVIDED + 27, 30_000_000])
def test_a_norm_on_the_device_is_float64_accurate(size: int) -> None:
    gradient = [torch.rand(size, device="cuda") + 0.5]
    assert float(block_norm(gradient)) == pytest.approx(float(gradient[0].double().norm()), rel=1e-5)


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16", "bf16-master", "fp16-master"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("clock", ["completed", "attempt"])
def test_an_attempt_waits_for_the_device_at_the_one_event_and_nowhere_else(policy: str, optimizer: str, clock: str) -> None:
    update = truestep.Update(
        mlp(width=64).cuda(),
        OPTIMIZERS[optimizer],
        loss=cross_entropy,
        policy=policy,
        clip=truestep.ClipNorm(0.1),
        scheduler=torch.optim.lr_scheduler.LinearLR,
        clock=clock,
    )
    windows = [[on_gpu(batch(8, seed)), on_gpu(batch(4, seed + 9))] for seed in range(4)]
    for window in windows[:2]:  # the first looks at weights and buffers, which waits
        update(window)
    torch.cuda.set_sync_debug_mode("error")
    try:
        outcomes = [update(window) for window in windows[2:]]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(outcome.grad_norm is not None and outcome.loss is not None for outcome in outcomes)


def test_learning_rates_on_the_device_are_read_with_the_norm() -> None:
    model = mlp(width=64).cuda()
    steps = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25, device="cuda"), capturable=True, foreach=True)
    update = truestep.Update(model, steps, loss=cross_entropy)
    windows = [[on_gpu(batch(8, seed))] for seed in range(3)]
    update(windows[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        outcome = update(windows[1])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert outcome.lr == (0.25,)


def test_a_learning_rate_and_a_loss_on_the_cpu_are_read_beside_the_norm_on_the_device() -> None:
    model = mlp(width=64).cuda()
    steps = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25), fused=True)
    update = truestep.Update(model, steps, loss=lambda model, microbatch: cross_entropy(model, microbatch).cpu())
    outcome = update([on_gpu(batch(8)), on_gpu(batch(8, 1))])
    assert outcome.completed
    assert outcome.lr == (0.25,)
    assert outcome.loss is not None


def test_one_bad_element_on_the_device_is_found() -> None:
    gradient = torch.zeros(UNDIVIDED + 27, device="cuda")
    gradient[UNDIVIDED + 26] = float("nan")
    assert judged([gradient], 1.0).norm is None


def test_tf32_rounds_what_float32_does_not() -> None:
    x = torch.full((64, 64), 1.0 + 2.0**-12, device="cuda")
    seen: dict[str, Tensor] = {}

    def loss(model: nn.Module, data: Tensor) -> Tensor:
        seen[policy] = (data @ data).detach()
        return model(data).square().mean()

    for policy in ("fp32", "tf32"):
        model = nn.Linear(64, 64).cuda()
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, policy=policy)([x])
    assert not torch.equal(seen["fp32"], seen["tf32"])


def test_bf16_and_fp16_are_not_emulated_here() -> None:
    device = torch.device("cuda")
    assert not truestep.Policy.named("fp16").emulated(device)
    assert truestep.Policy.named("bf16").emulated(device) is not torch.cuda.is_bf16_supported(including_emulation=False)
