"""Law 11: what cannot be had is refused by name, with what can."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, same, weights
from truestep import LossScale, Policy
from truestep.engine.policy import available, float32_arithmetics
from truestep.errors import OptimizerError, PolicyError, StateError


def build(model: nn.Module | None = None, optimizer=None, **options) -> truestep.Update:
    model = mlp() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer
    return truestep.Update(model, optimizer, **({"loss": cross_entropy} | options))


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PolicyError, match="fp32, tf32, bf16, fp16") as caught:
        build(policy="float16")
    assert caught.value.asked == "float16"


def test_tf32_on_a_cpu_is_refused_with_what_a_cpu_can_do() -> None:
    with pytest.raises(PolicyError, match="cpu can do: fp32, bf16, fp16"):
        build(policy="tf32")


def test_a_device_that_the_engine_does_not_know_is_refused() -> None:
    assert available(torch.device("meta")) == []
    with pytest.raises(PolicyError, match="cpu and cuda"):
        build(mlp().to("meta"))


def test_float16_without_a_loss_scale_is_refused_unless_it_is_meant() -> None:
    with pytest.raises(PolicyError, match=r"2\^-25 and below become zero") as caught:
        build(policy="fp16", scale=LossScale.none())
    assert (caught.value.compute, caught.value.scale) == ("float16", "off")
    assert build(policy="fp16", scale=LossScale.none(), allow_underflow=True)([batch(2)]).completed
    own = truestep.Policy(name="mine", compute=torch.float16, scale=LossScale.none())
    with pytest.raises(PolicyError, match="become zero"):
        build(policy=own)
    assert build(policy=own, allow_underflow=True)([batch(2)]).completed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_weights_in_another_format_are_refused_by_name(dtype: torch.dtype) -> None:
    model = mlp()
    model[2].bias = nn.Parameter(model[2].bias.detach().to(dtype))
    with pytest.raises(PolicyError, match=r"parameter '2\.bias'") as caught:
        build(model)
    assert caught.value.dtype == str(dtype).removeprefix("torch.")


def test_optimizers_that_the_engine_does_not_take_are_refused_by_name() -> None:
    model = mlp()
    with pytest.raises(OptimizerError, match="is a NoneType"):
        build(model, lambda params: None)
    with pytest.raises(OptimizerError, match="no optimizer in the list"):
        build(model, [])
    with pytest.raises(OptimizerError, match="stepped twice"):
        build(model, [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(model[0].parameters(), lr=0.1)])
    frozen = mlp().requires_grad_(False)
    with pytest.raises(OptimizerError, match="requires_grad"):
        build(frozen, torch.optim.SGD(frozen.parameters(), lr=0.1))


def test_fp32_is_float32_inside_another_autocast() -> None:
    seen = []

    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        seen.append(model[0](data[0]).dtype)
        return cross_entropy(model, data)

    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, policy="fp32")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        update([batch(2)])
    assert seen == [torch.float32]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_float32_products_are_float32_whatever_the_process_has_set(policy: str) -> None:
    seen = []

    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return cross_entropy(model, data)

    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, policy=policy)
    torch.set_float32_matmul_precision("medium")
    try:
        update([batch(2)])
        assert seen == ["ieee"]
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("part", ["matmul", "conv", "rnn"])
def test_torchs_newer_switches_of_float32_arithmetic_are_heard_too(part: str) -> None:
    seen = []
    library = getattr(torch.backends.mkldnn, part)

    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        seen.append(library.fp32_precision)
        return cross_entropy(model, data)

    before = library.fp32_precision
    library.fp32_precision = "bf16"
    try:
        assert build(loss=loss)([batch(2)]).completed
        assert seen == ["ieee"]
        assert library.fp32_precision == "bf16"
    finally:
        library.fp32_precision = before


def test_the_arithmetic_that_is_told_is_that_of_the_device() -> None:
    matmul, before = torch.backends.cuda.matmul, torch.backends.cuda.matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        assert float32_arithmetics(torch.device("cuda"))[0] == "tf32"
        assert float32_arithmetics(torch.device("cpu")) == ("ieee", "ieee", "ieee")
    finally:
        matmul.fp32_precision = before


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_an_autocast_around_the_loop_changes_nothing(policy: str) -> None:
    around, plain = mlp(), mlp()
    for model, context in ((around, torch.autocast("cpu", dtype=torch.bfloat16)), (plain, nullcontext())):
        update = build(model, policy=policy)
        with context:
            losses = [update([batch(4), batch(4)]).loss for _ in range(3)]
        assert len(set(losses)) == 3  # casts of old weights would repeat the first loss
    assert same(weights(around), weights(plain))


def test_a_no_grad_around_the_loop_changes_nothing() -> None:
    around, plain = mlp(), mlp()
    with torch.no_grad():
        assert build(around)([batch(4)]).completed
    build(plain)([batch(4)])
    assert same(weights(around), weights(plain))


@pytest.mark.parametrize("policy", ["bf16", "fp16"])
def test_a_forward_outside_autocast_is_no_low_precision(policy: str) -> None:
    update = build(policy=policy)
    with pytest.raises(StateError, match=r"outside attempt\.autocast"), update.attempt(total=2) as attempt:
        attempt.backward(cross_entropy(update.plan.model, batch(2)), 2)


@pytest.mark.parametrize(("policy", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_lesson_c4_activations_are_low_and_weights_gradients_and_moments_are_float32(policy: str, dtype: torch.dtype) -> None:
    model, seen = mlp(), []
    model[2].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    model[2].register_full_backward_hook(lambda module, before, after: seen.append(after[0].dtype))
    optimizer = torch.optim.AdamW(model.parameters())
    build(model, optimizer, policy=policy)([batch(2)])
    assert seen == [dtype, dtype]
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert {s["exp_avg"].dtype for s in optimizer.state.values()} == {torch.float32}


def test_emulation_is_known_from_the_processor() -> None:
    cpu = torch.device("cpu")
    assert not Policy.named("fp32").emulated(cpu)
    has = torch.cpu.get_capabilities()
    assert Policy.named("bf16").emulated(cpu) is not any(has.get(k) for k in ("avx512_bf16", "amx_bf16", "bf16"))
    assert Policy.named("fp16").emulated(cpu) is not any(has.get(k) for k in ("avx512_fp16", "amx_fp16", "fp16"))
