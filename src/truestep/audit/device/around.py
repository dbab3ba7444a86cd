"""What stands around tensors: data loaders, process groups, data parallelism and optimizers that ask for a GPU."""

from __future__ import annotations

import sys
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.nn import attention
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from truestep.audit.device.names import Once, is_cuda
from truestep.audit.device.refused import refuse

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches


def install(patches: Patches, tell: Once) -> None:
    """Replaces all of them."""
    _loaders(patches, tell)
    _parallel(patches, tell)
    _optimizers(patches, tell)
    _attention(patches, tell)
    if distributed.is_available():
        _groups(patches, tell)
        _reductions(patches, tell)


def _loaders(patches: Patches, tell: Once) -> None:
    begin = DataLoader.__init__
    parameters = signature(begin)

    @wraps(begin)
    def __init__(*args: Any, **kwargs: Any) -> None:
        given = parameters.bind(*args, **kwargs)
        if given.arguments.get("pin_memory"):
            tell("DataLoader(pin_memory=True) -> False", "memory is pinned for a GPU, and there is none")
            given.arguments.update(pin_memory=False, pin_memory_device="")
        begin(*given.args, **given.kwargs)

    patches.replace(DataLoader, "__init__", __init__)


def _parallel(patches: Patches, tell: Once) -> None:
    begin = DistributedDataParallel.__init__

    @wraps(begin)
    def __init__(model: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_ids is not None or output_device is not None:
            tell("DistributedDataParallel(device_ids=...) -> no device_ids", "a module on the CPU takes none")
        begin(model, module, None, None, *args, **kwargs)

    patches.replace(DistributedDataParallel, "__init__", __init__)
    # DataParallel of one device is the module itself, as it is where torch sees no GPU; the module's name is also a function's.
    patches.replace(sys.modules["torch.nn.parallel.data_parallel"], "_get_available_device_type", lambda: None)

    def convert_sync_batchnorm(cls: type, module: Any, process_group: Any = None) -> Any:
        tell(
            "SyncBatchNorm.convert_sync_batchnorm(model) -> model", "each rank normalises by its own batch: the CPU has no other"
        )
        return module

    patches.replace(torch.nn.SyncBatchNorm, "convert_sync_batchnorm", classmethod(convert_sync_batchnorm))


def _optimizers(patches: Patches, tell: Once) -> None:
    begin = torch.optim.Optimizer.__init__

    @wraps(begin)
    def __init__(optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        if defaults.get("capturable"):
            tell("capturable=True -> False", "it is for graphs of a GPU's work")
            defaults = {**defaults, "capturable": False}
        begin(optimizer, params, defaults)

    patches.replace(torch.optim.Optimizer, "__init__", __init__)


def _attention(patches: Patches, tell: Once) -> None:
    old = attention.sdpa_kernel

    @wraps(old)
    def sdpa_kernel(backends: Any, *args: Any, **kwargs: Any) -> Any:
        tell("sdpa_kernel(...) -> with MATH among them", "the CPU has no kernel of some names")
        chosen = backends if isinstance(backends, (list, tuple, set)) else [backends]
        return old([*chosen, attention.SDPBackend.MATH], *args, **kwargs)

    patches.replace(attention, "sdpa_kernel", sdpa_kernel)


def _groups(patches: Patches, tell: Once) -> None:
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    for name in ("init_process_group", "new_group"):
        old = getattr(c10d, name)

        def grouping(*args: Any, _old: Any = old, _name: str = name, **kwargs: Any) -> Any:
            given = signature(_old).bind(*args, **kwargs)
            backend = given.arguments.get("backend")
            if (backend is None and _name == "init_process_group") or "nccl" in str(backend):
                tell("init_process_group('nccl') -> 'gloo'", "the backend that the CPU has")
                given.arguments["backend"] = "gloo"
            given.arguments.pop("device_id", None)
            return _old(*given.args, **given.kwargs)

        for owner in (c10d, distributed):
            patches.replace(owner, name, wraps(old)(grouping))
    mesh = sys.modules["torch.distributed.device_mesh"]
    make = mesh.init_device_mesh

    @wraps(make)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        if is_cuda(device_type):
            tell("init_device_mesh('cuda') -> 'cpu'", "the CPU stands in")
            device_type = "cpu"
        return make(device_type, *args, **kwargs)

    for owner in (mesh, distributed):
        patches.replace(owner, "init_device_mesh", init_device_mesh)


def _reductions(patches: Patches, tell: Once) -> None:
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    meet, reduce = c10d.barrier, c10d.all_reduce

    @wraps(meet)
    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return meet(group, async_op)

    @wraps(reduce)
    def all_reduce(tensor: Any, op: Any = distributed.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != distributed.ReduceOp.AVG:
            return reduce(tensor, op, group, async_op)
        if async_op:
            refuse("all_reduce(op=AVG, async_op=True)", "gloo has no mean")
        tell("all_reduce(op=AVG) -> SUM, divided by the ranks", "gloo has no mean")
        reduce(tensor, distributed.ReduceOp.SUM, group)
        tensor /= distributed.get_world_size(group)
        return None

    for owner in (c10d, distributed):
        patches.replace(owner, "barrier", barrier)
        patches.replace(owner, "all_reduce", all_reduce)
