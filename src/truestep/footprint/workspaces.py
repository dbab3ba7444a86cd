"""What CPU kernels allocate inside of one operation, by rule: convolutions, and arithmetic of two formats."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_FORWARD = torch.ops.aten.convolution.default
_BACKWARD = torch.ops.aten.convolution_backward.default
_ARITHMETIC = {getattr(torch.ops.aten, name).Tensor for name in ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_")}


def workspace_bytes(func: Any, args: Any, out: Any) -> int:
    """The most that an operation holds beyond what it is given and returns; 0 off the CPU and where no rule is known.

    oneDNN reorders what it is given into blocks of channels, computes blocks, and reorders them back:

        forward   max(input + weight, output)
        backward  max(output's gradient + weight, 2 * input's gradient, output's gradient + input) + 2 weights in float32

    Channels that fill no block take more. Float16 without oneDNN unfolds each input into columns, as many as the kernel has
    places. No rule is known for cuDNN, which chooses a workspace by what is free. Sums, products and quotients convert an operand
    in another format than the result's as a whole: a bfloat16 gradient that is added to its float32 sum, say.

    >>> x, weight = torch.ones(1, 8, 4, 4), torch.ones(8, 8, 3, 3)
    >>> workspace_bytes(_FORWARD, (x, weight), torch.nn.functional.conv2d(x, weight))
    2816
    """
    if func in _ARITHMETIC and out.device.type == "cpu":
        others = [arg for arg in args[:2] if isinstance(arg, Tensor) and arg.dim() and arg.dtype is not out.dtype]
        return sum(arg.numel() * out.element_size() for arg in others)
    if func is _FORWARD and args[0].device.type == "cpu":
        x, weight = args[:2]
        return _columns(out, weight) if _unfolds(x) else int(max(x.nbytes + weight.nbytes, out.nbytes))
    if func is _BACKWARD and args[0].device.type == "cpu":
        gradient, x, weight = args[:3]
        if _unfolds(x):
            return _columns(gradient, weight)
        stages = [gradient.nbytes + x.nbytes]
        if out[0] is not None:
            stages += [gradient.nbytes + weight.nbytes, 2 * out[0].nbytes]
        return int(max(stages)) + 2 * 4 * int(weight.numel())
    return 0


def _unfolds(x: Tensor) -> bool:
    return x.dtype is torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()


def _columns(out: Tensor, weight: Tensor) -> int:
    """Examples x (input channels x places of the kernel) x places of the output."""
    places = math.prod(out.shape[2:])
    return int(out.shape[0] * math.prod(weight.shape[1:]) * places * weight.element_size())
