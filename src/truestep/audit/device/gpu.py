"""The GPU that a script asks for: what `torch.cuda` and `torch.accelerator` answer where there is none."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from truestep.audit.device.names import Once, torch_asks
from truestep.audit.device.stand_ins import GIB, NAME, Event, Properties, Region, Stream

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches

HARDWARE: dict[str, Any] = {
    "get_device_name": NAME,
    "get_device_capability": (8, 0),
    "get_device_properties": Properties(),
    "get_arch_list": ["sm_80"],
    "get_gencode_flags": "",
    "is_bf16_supported": True,
    "is_tf32_supported": True,
    "can_device_access_peer": False,
}
"""What the stand-in says of itself."""

AMOUNTS: dict[str, Any] = {
    **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    **dict.fromkeys(("memory_cached", "max_memory_cached", "device_memory_used", "memory_usage", "utilization"), 0),
    **dict.fromkeys(("temperature", "power_draw", "clock_rate"), 0),
    "memory_stats_as_nested_dict": {},
    "host_memory_stats_as_nested_dict": {},
    "mem_get_info": (16 * GIB, 16 * GIB),
    "get_memory_info": (16 * GIB, 16 * GIB),
    "get_per_process_memory_fraction": 1.0,
    "memory_summary": "no GPU, no GPU memory",
    "list_gpu_processes": "no GPU, no processes on it",
    "memory_snapshot": [],
    "_snapshot": {"segments": [], "device_traces": []},
}
"""What is measured of it: nothing."""

NOTHING = (  # noqa: SIM905 - names read better as words
    "synchronize empty_cache empty_host_cache ipc_collect init set_stream set_sync_debug_mode set_per_process_memory_fraction "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "reset_accumulated_host_memory_stats reset_peak_host_memory_stats _record_memory_history _dump_snapshot"
).split()
"""What there is nothing to do for."""


class Current:
    """Which of the CUDA devices the script chose; each rank has one of its own."""

    def __init__(self) -> None:
        self.index = 0

    def get(self) -> int:
        """Its index."""
        return self.index

    def set(self, device: Any) -> None:
        """Chooses; torch's own -1 for "no change" is none."""
        index = device if isinstance(device, int) else torch.device(device).index
        self.index = self.index if index is None or index < 0 else index


def install(patches: Patches, tell: Once) -> None:
    """Replaces all of them."""
    current = Current()
    for owner in (torch.cuda, torch.accelerator):
        answers = {**_presence(owner, tell), **_constants(owner, tell), **_order(current), **_random()}
        modules = (owner, owner.memory, *((owner.random,) if owner is torch.cuda else ()))
        for module in modules:
            for name, answer in answers.items():
                if name in vars(module):
                    patches.replace(module, name, answer)
    patches.replace(torch.accelerator, "current_accelerator", _current_accelerator(tell))
    _profiling(patches)


def _presence(owner: Any, tell: Once) -> dict[str, Callable[..., Any]]:
    """Whether there are GPUs, and how many: one for each of this machine's ranks."""
    is_available, device_count = owner.is_available, owner.device_count

    def there() -> bool:
        if torch_asks():
            return bool(is_available())
        tell(f"{owner.__name__}.is_available() -> True", "the CPU stands in")
        return True

    def count() -> int:
        if torch_asks():
            return int(device_count())
        ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        tell(f"{owner.__name__}.device_count() -> {ranks}", "one for each rank of this machine")
        return ranks

    return {"is_available": there, "device_count": count}


def _current_accelerator(tell: Once) -> Callable[..., Any]:
    truth = torch.accelerator.current_accelerator

    def current_accelerator(check_available: bool = False) -> torch.device | None:
        if torch_asks():
            return truth(check_available)
        tell("torch.accelerator.current_accelerator() -> cuda", "the CPU stands in")
        return torch.device("cuda")

    return current_accelerator


def _constants(owner: Any, tell: Once) -> dict[str, Callable[..., Any]]:
    def saying(name: str, value: Any, why: str) -> Callable[..., Any]:
        def answer(*args: Any, **kwargs: Any) -> Any:
            tell(f"{owner.__name__}.{name}() -> {'nothing' if value is None else value}", why)
            return value

        return answer

    def memory_stats(*args: Any, **kwargs: Any) -> dict[str, int]:
        tell(f"{owner.__name__}.memory_stats() -> all 0", "there is no GPU memory to measure")
        return defaultdict(int)

    hardware = HARDWARE if owner is torch.cuda else {}
    return {
        **{name: saying(name, value, "what the CPU's stand-in says of itself") for name, value in hardware.items()},
        **{name: saying(name, value, "there is no GPU to measure") for name, value in AMOUNTS.items()},
        **{name: saying(name, None, "there is no GPU to wait for, or to clean") for name in NOTHING},
        "memory_stats": memory_stats,
        "host_memory_stats": memory_stats,
    }


def _order(current: Current) -> dict[str, Any]:
    """Streams, events and the current device."""

    def stream(*args: Any, **kwargs: Any) -> Stream:
        return Stream()

    return {
        "Event": Event,
        "Stream": Stream,
        **dict.fromkeys(("current_stream", "default_stream"), stream),
        **dict.fromkeys(("stream", "StreamContext", "device", "device_of", "device_index"), Region),
        **dict.fromkeys(("set_device", "set_device_index", "set_device_idx"), current.set),
        **dict.fromkeys(("current_device", "current_device_index", "current_device_idx"), current.get),
        "get_sync_debug_mode": lambda: 0,
        "is_current_stream_capturing": lambda: False,
        "cudart": lambda: SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
    }


def _random() -> dict[str, Any]:
    """CUDA's generator, which nothing draws from: seeding it leaves the CPU's own where it is."""
    idle = torch._C.Generator()

    def seed_with(seed: int) -> None:
        idle.manual_seed(int(seed))

    def set_state(state: torch.Tensor, device: Any = "cuda") -> None:
        idle.set_state(state)

    def set_states(states: Iterable[torch.Tensor]) -> None:
        for state in states:
            idle.set_state(state)

    return {
        "default_generators": (idle,),
        **dict.fromkeys(("manual_seed", "manual_seed_all"), seed_with),
        **dict.fromkeys(("seed", "seed_all"), idle.seed),
        "initial_seed": idle.initial_seed,
        "get_rng_state": lambda device="cuda": idle.get_state(),
        "get_rng_state_all": lambda: [idle.get_state()],
        "set_rng_state": set_state,
        "set_rng_state_all": set_states,
    }


def _profiling(patches: Patches) -> None:
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        patches.replace(torch.cuda.nvtx, name, lambda *args, **kwargs: 0)
    for name in ("start", "stop"):
        patches.replace(torch.cuda.profiler, name, lambda: None)
    patches.replace(torch.cuda.nccl, "version", lambda: (2, 21, 5))
