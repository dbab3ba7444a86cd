"""Adversarial training takes one update for each optimizer, bit for bit as by hand, and penalties in original units."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import everything, same, weights

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
LR = 1e-2


def networks() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    return generator, critic


def noise(step: int, n: int = 6) -> Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(step))


def real(step: int, n: int = 6) -> Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(100 + step)) + 1.0


def told_apart(critic: nn.Module, x: Tensor, fake: Tensor) -> Tensor:
    ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
    loss = F.binary_cross_entropy_with_logits
    return 0.5 * (loss(critic(x), ones) + loss(critic(fake), zeros))


def fooled(critic: nn.Module, fake: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(critic(fake), torch.ones(len(fake), 1))


@pytest.mark.parametrize("policy", DTYPES)
def test_two_updates_train_a_gan_bit_for_bit_as_two_optimizers_by_hand(policy: str) -> None:
    dtype = DTYPES[policy]
    generator, critic = networks()
    steps = [torch.optim.Adam(m.parameters(), lr=LR, betas=(0.5, 0.9)) for m in (critic, generator)]
    scalers = [torch.amp.GradScaler("cpu", enabled=policy == "fp16") for _ in steps]
    for step in range(4):
        for network, optimizer, scaler in zip((critic, generator), steps, scalers, strict=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                fake = generator(noise(step))
                loss = told_apart(critic, real(step), fake.detach()) if network is critic else fooled(critic, fake)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    ours, our_critic = networks()
    updates = [
        truestep.Update(
            our_critic,
            torch.optim.Adam(our_critic.parameters(), lr=LR, betas=(0.5, 0.9)),
            loss=lambda critic, step: told_apart(critic, real(step), ours(noise(step)).detach()),
            examples=lambda step: 6,
            policy=policy,
        ),
        truestep.Update(
            ours,
            torch.optim.Adam(ours.parameters(), lr=LR, betas=(0.5, 0.9)),
            loss=lambda generator, step: fooled(our_critic, generator(noise(step))),
            examples=lambda step: 6,
            policy=policy,
        ),
    ]
    for step in range(4):
        for update in updates:
            assert update([step]).completed
    assert same(weights(critic) + weights(generator), weights(our_critic) + weights(ours))
    assert same([b.detach() for b in generator.buffers()], [b.detach() for b in ours.buffers()])


def test_a_generators_backward_leaves_nothing_in_the_critic() -> None:
    generator, critic = networks()
    before = weights(critic)
    marks = [torch.full_like(p, 7.0) for p in critic.parameters()]
    for p, mark in zip(critic.parameters(), marks, strict=True):
        p.grad = mark.clone()
    update = truestep.Update(
        generator, torch.optim.SGD(generator.parameters(), lr=0.1), loss=lambda m, z: fooled(critic, m(z)), policy="fp16"
    )
    assert update([noise(0), noise(1)]).completed
    assert same(marks, [p.grad for p in critic.parameters()])
    assert same(before, weights(critic))


def test_each_optimizer_has_a_scale_of_its_own() -> None:
    generator, critic = networks()
    scale = truestep.LossScale.dynamic(2.0**120, interval=1)  # its gradients overflow in float16's backward, and not float32's
    first = truestep.Update(
        critic,
        torch.optim.SGD(critic.parameters(), lr=0.1),
        loss=lambda m, step: told_apart(m, real(step), generator(noise(step)).detach()),
        examples=lambda step: 6,
        policy="fp16",
        scale=scale,
    )
    second = truestep.Update(
        generator,
        torch.optim.SGD(generator.parameters(), lr=0.1),
        loss=lambda m, step: fooled(critic, m(noise(step))),
        examples=lambda step: 6,
        scale=truestep.LossScale.dynamic(4.0, interval=1),
    )
    assert first([0]).skip.reason is truestep.Reason.BACKWARD
    assert second([0]).completed
    assert (first.scale.value, second.scale.value) == (2.0**119, 8.0)


def test_a_skip_puts_back_the_statistics_of_every_network_that_the_update_was_given() -> None:
    """Those of a network that only the loss knows stay as its forward left them, NaN included: give both as one model."""
    generator, _ = networks()
    critic = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    update = truestep.Update(
        nn.ModuleDict({"generator": generator, "critic": critic}),
        torch.optim.Adam(generator.parameters(), lr=LR),
        loss=lambda both, z: fooled(both["critic"], both["generator"](z)),
    )
    for _ in range(2):
        before = everything(update)
        skip = update([noise(0), noise(1) * float("nan")]).skip
        assert (skip.reason, skip.place) == (truestep.Reason.INPUT, "microbatch 1")
        assert same(before, everything(update))
        critics = weights(critic)
        assert update([noise(0)]).completed
        assert same(critics, weights(critic))


class Tempered(nn.Module):
    """A loss with a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(-x / self.temperature).mean()


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_a_loss_may_have_parameters_of_its_own_that_the_optimizer_steps_too(policy: str) -> None:
    trained = []
    for by_us in (False, True):
        model, loss = smooth_critic(), Tempered()
        optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=LR)
        update = truestep.Update(model, optimizer, loss=lambda m, x, loss=loss: loss(m(x)), policy=policy)
        for step in range(3):
            if by_us:
                assert update([real(step)]).completed
                continue
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=policy == "bf16"):
                value = loss(model(real(step)))
            value.float().backward()
            optimizer.step()
        trained.append(weights(model) + weights(loss))
    assert same(*trained)


Gradients = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def wasserstein(critic: nn.Module, data: tuple[Tensor, ...], by: Gradients) -> Tensor:
    """The critic's loss of WGAN-GP (Gulrajani et al. 2017, algorithm 1), its inner gradients taken by this function."""
    x, fake, between = data
    (slope,) = by(critic(between).sum(), between)
    return critic(fake).mean() - critic(x).mean() + 10.0 * (slope.norm(dim=1) - 1.0).square().mean()


def r1(critic: nn.Module, data: tuple[Tensor, ...], by: Gradients) -> Tensor:
    """The critic's loss with gamma / 2 * the mean of ||d critic / d x||^2 over real examples (Mescheder et al. 2018)."""
    _, fake, x = data
    scores = critic(x)
    (slope,) = by(scores.sum(), x)
    return F.softplus(-scores).mean() + F.softplus(critic(fake)).mean() + 5.0 * slope.square().sum(1).mean()


def at_scale(value: float) -> Gradients:
    """Gradients with a graph, taken at a loss scale and divided by it again: what torch's examples of AMP do."""

    def by(loss: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        found = torch.autograd.grad(loss.float() * value, x, create_graph=True)
        return tuple(g.float() * (1.0 / value) for g in found)

    return by


def smooth_critic() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def points(part: int, parts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Real and false examples, and points between them that a gradient is taken by."""
    x, fake = real(0, n=8), real(1, n=8) - 2.0
    a, b, between = (data.chunk(parts)[part] for data in (x, fake, 0.25 * x + 0.75 * fake))
    return a, b, between.clone().requires_grad_()


@pytest.mark.parametrize("penalized", [wasserstein, r1])
@pytest.mark.parametrize(
    ("policy", "value"),
    [(policy, value) for policy in ("fp32", "bf16") for value in (1.0, 65536.0)] + [("fp16", 1.0), ("fp16", 1024.0)],
)
def test_a_gradient_penalty_is_the_one_by_hand_at_any_loss_scale(penalized, policy: str, value: float) -> None:
    dtype = DTYPES[policy]
    hand, ours = smooth_critic(), smooth_critic()
    for part in range(2):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            # Without float16 a power of two changes no bit: then the numbers by hand need no scale.
            loss = penalized(hand, points(part, 2), at_scale(value if policy == "fp16" else 1.0))
        (loss * (0.5 * (value if policy == "fp16" else 1.0))).backward()
    update = truestep.Update(
        ours,
        torch.optim.SGD(ours.parameters(), lr=0.0),
        loss=lambda m, data: None,
        policy=policy,
        scale=truestep.LossScale.static(value),
    )
    with update.attempt(total=8) as attempt:
        for part in range(2):
            with attempt.autocast():
                loss = penalized(ours, points(part, 2), attempt.grad)
            attempt.backward(loss, 4)
    assert attempt.outcome.completed
    expected = [p.grad * (1.0 / value if policy == "fp16" else 1.0) for p in hand.parameters() if p.grad is not None]
    assert same(expected, [p.grad for p in ours.parameters() if p.grad is not None])


def in_float64(loss: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, x, create_graph=True)


@pytest.mark.parametrize("penalized", [wasserstein, r1])
def test_a_gradient_penalty_in_microbatches_is_the_one_of_the_full_batch_in_float64(penalized) -> None:
    exact, ours = smooth_critic().double(), smooth_critic()
    whole = tuple(data.detach().double() for data in points(0, 1))
    loss = penalized(exact, (*whole[:2], whole[2].requires_grad_()), in_float64)
    loss.backward()
    update = truestep.Update(ours, torch.optim.SGD(ours.parameters(), lr=0.0), loss=lambda m, data: None)
    with update.attempt(total=8) as attempt:
        for part in range(4):
            attempt.backward(penalized(ours, points(part, 4), attempt.grad), 2)
    # Fewer than 128 roundings lie on any way from an input to a gradient: three layers of width 8 forward, backward, and both
    # again for the penalty. Each changes a term by 2^-24 of it; no term exceeds 10 (the penalty's factor) times 8 (its rows).
    assert attempt.outcome.loss == pytest.approx(loss.item(), abs=128 * 2.0**-24 * 80.0)
    for p, q in zip(ours.parameters(), exact.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or float((p.grad.double() - q.grad).abs().max()) <= 128 * 2.0**-24 * 80.0
