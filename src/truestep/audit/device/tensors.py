"""Tensors, storages, generators and the default device: what is made on CUDA or moved there is on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.storage import TypedStorage, _StorageBase
from torch.utils import _device

from truestep.audit.device.names import CPU, Once, is_cuda, torch_asks
from truestep.audit.device.refused import refuse

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches

FACTORIES = (  # noqa: SIM905 - names read better as words
    "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_quantized empty_strided eye "
    "from_file full full_like hamming_window hann_window kaiser_window linspace logspace normal ones ones_like rand rand_like "
    "randint randint_like randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor "
    "sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros "
    "zeros_like"
).split()
"""Every function of torch that takes a device."""

METHODS = ("new", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
"""Every method of a tensor likewise, but for those that move it."""

ALIASING = ("as_tensor", "asarray")
"""Factories that keep an array's memory where they can; on their way to a GPU they cannot."""

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)

DEFAULT = torch.device("cpu", 0)
"""The default device where the script made CUDA it; told from any other by its identity."""

SAYS_CPU = "a tensor's own device and is_cuda say cpu; a test such as x.device.type == 'cuda' is false"


def install(patches: Patches, tell: Once) -> None:
    """Replaces all of them."""
    _device._device_constructors()  # the default device looks functions up in what stands here before they are replaced
    for owner, names in ((torch, FACTORIES), (torch.fft, ("fftfreq", "rfftfreq")), (Tensor, METHODS)):
        for name in names:
            patches.replace(owner, name, _factory(getattr(owner, name), name, tell))
    for name in ("nested_tensor", "as_nested_tensor"):
        patches.replace(torch.nested, name, _factory(getattr(torch.nested, name), name, tell))
    _moves(patches, tell)
    _storages(patches, tell)
    _generator(patches, tell)
    _default_device(patches, tell)
    _tensor_types(patches, tell)


def _factory(old: Callable[..., Any], name: str, tell: Once) -> Callable[..., Any]:
    @wraps(old)
    def factory(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("pin_memory"):
            tell("pin_memory=True -> pin_memory=False", "memory is pinned for a GPU, and there is none")
            kwargs["pin_memory"] = False
        if not is_cuda(kwargs.get("device")):
            return old(*args, **kwargs)
        if name.startswith(("sparse_cs", "sparse_bs", "sparse_compressed")):
            refuse(f"torch.{name} on a CUDA device", "the CPU has few operations on compressed sparse tensors")
        tell("torch.zeros(..., device='cuda') and its like -> device='cpu'", SAYS_CPU)
        kwargs["device"] = CPU
        result = old(*args, **kwargs)
        return result.clone() if name in ALIASING and args and not isinstance(args[0], Tensor) else result

    return factory


def _moves(patches: Patches, tell: Once) -> None:
    moved, home, typed = Tensor.to, Tensor.cpu, Tensor.type

    @wraps(moved)
    def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        named = args[0] if args else kwargs.get("device")
        if named.__class__ is str and named == "cpu":
            args, kwargs = _copying(args, kwargs)
            return moved(tensor, *args, **kwargs)
        if not is_cuda(named):
            return moved(tensor, *args, **kwargs)
        if tensor.layout in COMPRESSED:
            refuse("a sparse compressed tensor on a CUDA device", "the CPU has few operations on compressed sparse tensors")
        tell("x.to('cuda'), x.cuda() -> x.to('cpu')", SAYS_CPU)
        args, kwargs = ((CPU, *args[1:]), kwargs) if args else (args, {**kwargs, "device": CPU})
        # A leaf that trains stays itself: whether it counts as one on CUDA already, and keeps its gradient, is not known.
        if not (tensor.requires_grad and tensor.is_leaf):
            args, kwargs = _copying(args, kwargs)
        return moved(tensor, *args, **kwargs)

    @wraps(Tensor.cuda)
    def cuda(tensor: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        return to(tensor, "cuda", non_blocking=non_blocking, **kwargs)

    @wraps(home)
    def cpu(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = home(tensor, *args, **kwargs)
        return result.clone() if result is tensor else result

    @wraps(typed)
    def type(tensor: Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        return typed(tensor, _without_cuda(dtype), *args, **kwargs) if dtype is not None else typed(tensor)

    is_on_cuda = Tensor.is_cuda

    def is_cuda_property(tensor: Tensor) -> bool:
        if not torch_asks():
            tell("x.is_cuda -> False", SAYS_CPU)
        return bool(is_on_cuda.__get__(tensor))  # type: ignore[attr-defined]  # a property, seen from its class

    @wraps(Tensor.pin_memory)
    def pin_memory(tensor: Tensor, device: Any = None) -> Tensor:
        tell("x.pin_memory() -> x", "memory is pinned for a GPU, and there is none")
        return tensor

    for new in (to, cuda, cpu, type, pin_memory):
        patches.replace(Tensor, new.__name__, new)
    patches.replace(Tensor, "is_cuda", property(is_cuda_property))
    patches.replace(Tensor, "record_stream", lambda tensor, stream: None)


def _copying(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments of `to`, which is (device, dtype, non_blocking, copy), with a copy asked for."""
    return ((*args[:3], True, *args[4:]), kwargs) if len(args) > 3 else (args, {**kwargs, "copy": True})


def _storages(patches: Patches, tell: Once) -> None:
    for kind in (_StorageBase, TypedStorage):
        to: Any = kind.to

        def moved(storage: Any, *, device: Any, non_blocking: bool = False, _to: Any = to) -> Any:
            return storage if is_cuda(device) else _to(storage, device=device, non_blocking=non_blocking)

        patches.replace(kind, "to", wraps(to)(moved))
        for name in ("cuda", "pin_memory"):
            patches.replace(kind, name, lambda storage, *args, **kwargs: storage)
    restore: Any = torch.serialization.default_restore_location  # every map_location of torch.load ends here

    @wraps(restore)
    def default_restore_location(storage: Any, location: str) -> Any:
        if not is_cuda(location):
            return restore(storage, location)
        tell("torch.load(map_location='cuda') -> 'cpu'", "there is no GPU to load to")
        return restore(storage, "cpu")

    patches.replace(torch.serialization, "default_restore_location", default_restore_location)


def _generator(patches: Patches, tell: Once) -> None:
    made = torch.Generator

    class Kind(type):
        def __call__(cls, device: Any = "cpu") -> Any:
            if not is_cuda(device):
                return made(device)
            tell("torch.Generator('cuda') -> torch.Generator('cpu')", "other numbers are drawn than on a GPU")
            return made(CPU)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, made)

        def __subclasscheck__(cls, kind: Any) -> bool:
            return issubclass(kind, made)

    patches.replace(torch, "Generator", Kind("Generator", (), {"__module__": "torch", "__doc__": made.__doc__}))


def _default_device(patches: Patches, tell: Once) -> None:
    begin: Any = _device.DeviceContext.__init__
    current = torch.get_default_device

    @wraps(begin)
    def __init__(context: Any, device: Any) -> None:
        begin(context, CPU if is_cuda(device) else device)
        if is_cuda(device):
            tell("torch.set_default_device('cuda'), with torch.device('cuda') -> 'cpu'", SAYS_CPU)
            context.device = DEFAULT

    @wraps(current)
    def get_default_device() -> torch.device:
        device = current()
        return torch.device("cuda", 0) if device is DEFAULT else device

    patches.replace(_device.DeviceContext, "__init__", __init__)
    patches.replace(torch, "get_default_device", get_default_device)


def _tensor_types(patches: Patches, tell: Once) -> None:
    """`torch.cuda.FloatTensor` and its kin are those of the CPU, by name and as themselves."""
    for name in (each for each in vars(torch.cuda) if each.endswith("Tensor") and hasattr(torch, each)):
        patches.replace(torch.cuda, name, getattr(torch, name))
    chosen = torch.set_default_tensor_type

    @wraps(chosen)
    def set_default_tensor_type(kind: Any) -> None:
        tell("torch.cuda.FloatTensor and its kin -> torch.FloatTensor", SAYS_CPU)
        chosen(_without_cuda(kind))

    patches.replace(torch, "set_default_tensor_type", set_default_tensor_type)


def _without_cuda(kind: Any) -> Any:
    return kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind
