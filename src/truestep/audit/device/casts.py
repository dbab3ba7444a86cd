"""Automatic casts and loss scaling: CUDA's regions are the CPU's, with CUDA's own default format."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from truestep.audit.device.names import Once

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches

LISTS = "float16 where none is named, as CUDA's; the CPU's region leaves softmax, norms and sums in it, CUDA's takes float32"


def install(patches: Patches, tell: Once) -> None:
    """Replaces regions, scalers, the casts of custom functions and what says whether a region is open."""
    _regions(patches, tell)
    _scalers(patches, tell)
    _custom_functions(patches)
    _state(patches)


def _regions(patches: Patches, tell: Once) -> None:
    begin = autocast.__init__

    @wraps(begin)
    def __init__(
        region: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type == "cuda":
            tell("autocast('cuda') -> autocast('cpu')", LISTS)
            device_type, dtype = "cpu", _dtype() if dtype is None else dtype
        begin(region, device_type, dtype, enabled, cache_enabled)

    patches.replace(autocast, "__init__", __init__)


def _scalers(patches: Patches, tell: Once) -> None:
    begin = GradScaler.__init__

    @wraps(begin)
    def __init__(scaler: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        if device == "cuda":
            tell("GradScaler('cuda') -> GradScaler('cpu')", "it scales, skips and grows in the same way")
            device = "cpu"
        begin(scaler, device, *args, **kwargs)

    patches.replace(GradScaler, "__init__", __init__)


def _custom_functions(patches: Patches) -> None:
    for name in ("custom_fwd", "custom_bwd"):
        old = getattr(torch.amp, name)

        def casting(function: Any = None, *, device_type: str, _old: Any = old, **kwargs: Any) -> Any:
            return _old(function, device_type="cpu" if device_type == "cuda" else device_type, **kwargs)

        def of_cuda(function: Any = None, _casting: Any = casting, **kwargs: Any) -> Any:
            return _casting(function, device_type="cuda", **kwargs)

        for owner in (torch.amp, torch.amp.autocast_mode):
            patches.replace(owner, name, wraps(old)(casting))
        for owner in (torch.cuda.amp, torch.cuda.amp.autocast_mode):
            patches.replace(owner, name, wraps(getattr(owner, name))(of_cuda))


def _dtype() -> torch.dtype:
    """What a CUDA region without a format casts to: what the one around it does; float16 outside of all."""
    return _get_dtype("cpu") if _is_enabled("cpu") else torch.float16


_get_dtype, _is_enabled = torch.get_autocast_dtype, torch.is_autocast_enabled


def _state(patches: Patches) -> None:
    set_dtype, set_enabled = torch.set_autocast_dtype, torch.set_autocast_enabled

    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return _is_enabled(_cpu(device_type))

    def get_autocast_dtype(device_type: str) -> torch.dtype:
        return _dtype() if device_type == "cuda" else _get_dtype(device_type)

    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        set_dtype(_cpu(device_type), dtype)

    def set_autocast_enabled(*args: Any) -> None:
        """Of a device and whether, or of CUDA where only that is given."""
        device_type, enabled = args if len(args) == 2 else ("cuda", *args)
        set_enabled(_cpu(device_type), enabled)

    for new in (is_autocast_enabled, get_autocast_dtype, set_autocast_dtype, set_autocast_enabled):
        patches.replace(torch, new.__name__, wraps(getattr(torch, new.__name__))(new))
    patches.replace(torch, "get_autocast_gpu_dtype", _dtype)
    patches.replace(torch, "set_autocast_gpu_dtype", lambda dtype: set_dtype("cpu", dtype))


def _cpu(device_type: str) -> str:
    return "cpu" if device_type == "cuda" else device_type
