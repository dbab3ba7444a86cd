"""The gradient of a window by its definition, in float64, and a derived bound on how far a policy's may lie from it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.engine.programs.program import Setup
from tests.engine.programs.world import Batch, weight_of

COVERED = ("linear", "mlp")
SINGLE = 2.0**-24
ROUNDOFF = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
"""Half a unit in the last place at 1: the relative error of one rounding."""
SMALLEST = {"fp32": 2.0**-149, "bf16": 2.0**-133, "fp16": 2.0**-24}
"""The spacing of subnormals, twice the absolute error of one rounding near 0; doubled for the float32 sums that feed it."""


@dataclass(frozen=True)
class Near:
    """A value as float64 has it, and a bound on the error of the policy's."""

    value: Tensor
    error: Tensor

    def __matmul__(self, other: Near) -> Near:
        """The error that the factors bring; the product's own roundings are added by `Arithmetic.product`."""
        value = self.value @ other.value
        error = self.error @ other.value.abs() + self.value.abs() @ other.error + self.error @ other.error
        return Near(value, error)

    @property
    def mT(self) -> Near:
        """Transposed."""
        return Near(self.value.mT, self.error.mT)


@dataclass(frozen=True)
class Arithmetic:
    """Roundings to nearest of relative error `u`, or of absolute error `tiny` among the subnormals."""

    u: float
    tiny: float

    def gamma(self, n: int) -> float:
        """The error of n roundings one after the other (Higham 2002, lemma 3.1)."""
        return n * self.u / (1.0 - n * self.u)

    def rounded(self, near: Near, times: int = 1) -> Near:
        """After so many roundings more."""
        size = near.value.abs() + near.error
        return Near(near.value, near.error + self.gamma(times) * size + times * self.tiny)

    def product(self, left: Near, right: Near) -> Near:
        """left @ right: both are cast, and n products are summed in any order and rounded."""
        left, right, n = self.rounded(left), self.rounded(right), left.value.shape[-1]
        product = left @ right
        size = (left.value.abs() + left.error) @ (right.value.abs() + right.error)
        return Near(product.value, product.error + self.gamma(n + 2) * size + (n + 2) * self.tiny)


def gradient_and_bound(setup: Setup, model: nn.Module, batches: list[Batch], scale: float) -> tuple[list[Tensor], list[Tensor]]:
    """sum of w_k * d(loss_k) / W by every parameter, and how far the engine's may lie from it before clipping.

    The bound follows the arithmetic forward and backward, per microbatch, at the loss scale: see `_contribution`. The K
    microbatches are then added in float32, and unscaled by one factor: K + 3 roundings of the sum of their sizes.
    """
    weights = [weight_of(setup, batch) for batch in batches]
    total = sum(w or 0.0 for w in weights)
    wide = copy.deepcopy(model).double()
    single = Arithmetic(SINGLE, 2.0**-149)
    exact = [torch.zeros_like(p) for p in wide.parameters()]
    errors, sizes = [torch.zeros_like(p) for p in exact], [torch.zeros_like(p) for p in exact]
    for batch, weight in zip(batches, weights, strict=True):
        if weight == 0.0:
            continue
        share = batch["share"] if weight is None else weight / total if setup.loss_is == "mean" else 1.0 / total
        summed = setup.loss_is == "sum"
        each = share * 2.0 ** batch["gain"] / (1 if summed else batch["size"])  # of one example's loss
        loss = each * F.cross_entropy(wide(batch["x"].double()), batch["y"], reduction="sum")
        for k, gradient in enumerate(torch.autograd.grad(loss, list(wide.parameters()))):
            exact[k] += gradient
        for k, near in enumerate(_contribution(setup.policy, wide, batch, each * scale)):
            errors[k] += near.error
            sizes[k] += near.value.abs() + near.error
    gamma = single.gamma(len(batches) + 3)
    absolute = len(batches) * single.tiny
    bounds = [(e + gamma * s + absolute) / scale + 4 * single.tiny for e, s in zip(errors, sizes, strict=True)]
    return exact, bounds


def _contribution(policy: str, model: nn.Module, batch: Batch, seed: float) -> list[Near]:
    """One microbatch's gradients, scaled: each example's loss has the factor `seed`.

    Products and activations round in the policy's format; logits, softmax and loss are float32. tanh, its derivative and the
    products with it are allowed 4 roundings. Of the softmax: an error d of the logits changes s by at most s * (e^(2d) - 1);
    its own arithmetic costs a difference, an exponential and a quotient of numbers up to the largest logit.
    """
    compute = policy.partition("-")[0]
    low, single = Arithmetic(ROUNDOFF[compute], SMALLEST[compute]), Arithmetic(SINGLE, 2.0**-149)
    layers = [m for m in model if isinstance(m, nn.Linear)]
    x = _sure(batch["x"].double())
    inputs = [x]
    z = x
    for index, layer in enumerate(layers):
        if index:
            inputs.append(low.rounded(Near(torch.tanh(z.value), z.error), 4))
        z = low.product(inputs[-1], _sure(layer.weight.detach().mT))
        bias = low.rounded(_sure(layer.bias.detach()))
        z = low.rounded(Near(z.value + bias.value, z.error + bias.error))
    s = torch.softmax(z.value, 1)
    shift = z.error.amax(1, keepdim=True)
    ds = s * torch.expm1(2.0 * shift) + s * 8.0 * SINGLE * (1.0 + z.value.abs().amax(1, keepdim=True))
    e = Near(s - F.one_hot(batch["y"], s.shape[1]), ds)
    e = single.rounded(Near(e.value * seed, e.error * seed), 6)
    gradients: list[Near] = []
    for layer, a in reversed(list(zip(layers, inputs, strict=True))):
        e = low.rounded(e)
        summed = low.product(_sure(torch.ones(1, len(e.value), dtype=torch.float64)), e)
        gradients[:0] = [low.product(e.mT, a), Near(summed.value[0], summed.error[0])]
        if a is not x:
            back = low.product(e, _sure(layer.weight.detach()))
            t = 1.0 - a.value.square()
            dt = 2.0 * a.value.abs() * a.error + a.error.square() + 2.0 * low.u
            error = back.error * t.abs() + back.value.abs() * dt + back.error * dt
            e = low.rounded(Near(back.value * t, error), 4)
    return gradients


def _sure(value: Tensor) -> Near:
    return Near(value, torch.zeros_like(value))


def telling(exact: list[Tensor], bounds: list[Tensor]) -> bool:
    """Whether the bound is small beside the gradient, so that a wrong share would be noticed."""
    size = math.hypot(*(float(g.norm()) for g in exact))
    return math.hypot(*(float(b.norm()) for b in bounds)) < 0.1 * size
