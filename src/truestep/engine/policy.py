"""A precision policy: what is computed in which format, and what a device can do of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

from truestep.engine.scale import LossScale
from truestep.errors import PolicyError


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Autocast dtype, float32 arithmetic, format of weights and gradients, and default loss scale under one name.

    >>> Policy.named("bf16").compute
    torch.bfloat16
    >>> Policy.named("fp16").scale.value
    65536.0
    """

    name: str
    compute: torch.dtype
    """The format of the products and convolutions."""
    matmul: Literal["highest", "high"] = "highest"
    """The arithmetic of float32 products: "highest" is float32, "high" is tf32."""
    weights: torch.dtype = torch.float32
    """The format of the model's weights and their gradients; those of normalization layers stay float32 in any case."""
    rounding: Literal["nearest", "stochastic"] = "nearest"
    """Of weights narrower than float32: "nearest" from float32 masters; "stochastic" without any, moments too."""
    seed: int = 0
    """Of the draws that round stochastically."""
    scale: LossScale

    @staticmethod
    def named(policy: str | Policy) -> Policy:
        """The policy of that name; PolicyError, with the names there are, for any other."""
        if isinstance(policy, Policy):
            return policy
        if policy not in POLICIES:
            raise PolicyError(f"no policy is called {policy!r}", hint=f"choose one of: {', '.join(POLICIES)}", asked=policy)
        return POLICIES[policy]

    @property
    def low(self) -> bool:
        """Whether autocast computes in a format narrower than float32."""
        return self.compute is not torch.float32

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context of a forward; it also switches off an autocast around it that this policy does not ask for."""
        return torch.autocast(device.type, dtype=self.compute if self.low else None, enabled=self.low)

    def arithmetic(self, device: torch.device) -> AbstractContextManager[None]:
        """Float32 products, convolutions and recurrences in this policy's arithmetic, forward and backward.

        No autocast of the surroundings reaches inside, for its casts would outlive the weights they were made of, and no no_grad.
        Whatever the process had set comes back afterwards. Where all is set as it should be, nothing is: every attempt asks.
        """
        wanted = "tf32" if self.matmul == "high" else "ieee"
        process = str(torch.backends.fp32_precision)  # type: ignore[attr-defined]  # torch's stubs lack it
        changed = [library for library in _libraries(device) if _effective(str(library.fp32_precision), process) != wanted]
        if not changed and torch.is_grad_enabled() and not torch.is_autocast_enabled(device.type):
            return nullcontext()
        return _imposed(changed, wanted, device)

    def emulated(self, device: torch.device) -> bool:
        """Whether the device lacks this arithmetic and computes it by conversion: its seconds then say nothing."""
        if device.type == "cuda":
            return self.compute is torch.bfloat16 and not torch.cuda.is_bf16_supported(including_emulation=False)
        if self.compute is torch.float16:
            return not _cpu_has("avx512_fp16", "amx_fp16", "fp16")
        return self.compute is torch.bfloat16 and not _cpu_has("avx512_bf16", "amx_bf16", "amx_tile", "bf16")

    def on(self, device: torch.device) -> Policy:
        """This policy, where the device can do what it says; else PolicyError. Nothing is substituted."""
        able = available(device)
        if not any(self._arithmetic == POLICIES[name]._arithmetic for name in able):
            raise PolicyError(
                f"policy {self.name} cannot be had on {device}",
                hint=f"{device} can do: {', '.join(able)}" if able else "the engine runs on cpu and cuda devices",
                policy=self.name,
                device=str(device),
            )
        return self

    @property
    def drawing_seed(self) -> int | None:
        """The seed of what is drawn in a step; None where nothing is."""
        return self.seed if self.rounding == "stochastic" else None

    @property
    def _arithmetic(self) -> tuple[object, ...]:
        return self.compute, self.matmul, self.weights, self.rounding


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(name="fp32", compute=torch.float32, scale=LossScale.none()),
        Policy(name="tf32", compute=torch.float32, matmul="high", scale=LossScale.none()),
        Policy(name="bf16", compute=torch.bfloat16, scale=LossScale.none()),
        Policy(name="fp16", compute=torch.float16, scale=LossScale.dynamic()),
        Policy(name="bf16-master", compute=torch.bfloat16, weights=torch.bfloat16, scale=LossScale.none()),
        Policy(name="fp16-master", compute=torch.float16, weights=torch.float16, scale=LossScale.dynamic()),
        Policy(name="bf16-pure", compute=torch.bfloat16, weights=torch.bfloat16, rounding="stochastic", scale=LossScale.none()),
    )
}


def available(device: torch.device) -> list[str]:
    """The names of the policies that `device` can do, emulated ones included; empty for a device the engine does not know."""
    if device.type == "cpu":
        return [name for name in POLICIES if name != "tf32"]
    if device.type == "cuda":
        has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
        return list(POLICIES) if has_bf16 else ["fp32", "fp16", "fp16-master"]
    return []


def float32_arithmetics(device: torch.device) -> tuple[str, str, str]:
    """Of float32 products, convolutions and recurrences on `device`, as set at present: "ieee", "tf32" or "bf16"."""
    process = str(torch.backends.fp32_precision)  # type: ignore[attr-defined]  # torch's stubs lack it
    products, convolutions, recurrences = (_effective(str(each.fp32_precision), process) for each in _libraries(device))
    return products, convolutions, recurrences


def scale_of(policy: Policy, scale: LossScale | None, *, allow_underflow: bool) -> LossScale:
    """The loss scale that was asked for, or the policy's own.

    PolicyError for what is none, and for float16 without loss scaling unless the user has said that it is meant.
    """
    scale = policy.scale if scale is None else scale
    if not isinstance(scale, LossScale):
        raise PolicyError(f"{scale!r} is no loss scale", hint="write scale=LossScale.dynamic() or LossScale.static(1024.0)")
    if policy.compute is torch.float16 and scale.kind == "none" and not allow_underflow:
        raise PolicyError(
            "compute=float16 with loss scaling off: gradients of 2^-25 and below become zero",
            hint="use scale=LossScale.dynamic(), or policy='bf16'; allow_underflow=True keeps this as it is",
            compute="float16",
            scale="off",
            smallest_above_zero="5.96e-08 (2^-24)",
        )
    return scale


def _cpu_has(*names: str) -> bool:
    """Whether torch names any of these among the processor's capabilities."""
    capabilities = torch.cpu.get_capabilities()
    return any(bool(capabilities.get(name)) for name in names)


_BACKENDS: Any = torch.backends
_OF_CUDA = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
_OF_OTHERS = (_BACKENDS.mkldnn.matmul, _BACKENDS.mkldnn.conv, _BACKENDS.mkldnn.rnn)
"""Found once, for every attempt looks at them."""


def _libraries(device: torch.device) -> tuple[Any, ...]:
    """What computes in float32 on `device`, as torch names the switches."""
    return _OF_CUDA if device.type == "cuda" else _OF_OTHERS


def _effective(own: str, process: str) -> str:
    """The float32 arithmetic of a library: its own setting, else the process's, else float32 itself."""
    chosen = process if own == "none" else own
    return "ieee" if chosen == "none" else chosen


@contextmanager
def uncached() -> Iterator[None]:
    """What an autocast of the surroundings has cast outside is not used inside, and the other way round."""
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()


@contextmanager
def _imposed(changed: list[Any], wanted: str, device: torch.device) -> Iterator[None]:
    """Inside, these libraries compute as `wanted`, and neither an autocast nor a no_grad of the surroundings is in force."""
    owns = [str(library.fp32_precision) for library in changed]
    for library in changed:
        library.fp32_precision = wanted
    try:
        with torch.autocast(device.type, enabled=False), torch.enable_grad(), uncached():
            yield
    finally:
        for library, own in zip(changed, owns, strict=True):
            library.fp32_precision = own
