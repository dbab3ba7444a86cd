"""What the CPU cannot stand in for: graphs, kernels of one's own and allocators are refused by their names."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from truestep.audit.device.names import Once
from truestep.audit.trace.frames import here
from truestep.errors import UsageError

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches

GRAPHS = "a graph is a recording of a GPU's work"
MEMORY = "there is no GPU memory"

REFUSED = {
    "CUDAGraph": GRAPHS,
    "graph": GRAPHS,
    "make_graphed_callables": GRAPHS,
    "graph_pool_handle": GRAPHS,
    "export_dot": GRAPHS,
    "export_graph_data": GRAPHS,
    "CUDAPluggableAllocator": MEMORY,
    "change_current_allocator": MEMORY,
    "caching_allocator_alloc": MEMORY,
    "caching_allocator_delete": MEMORY,
    "caching_allocator_disabled": MEMORY,
    "caching_allocator_enable": MEMORY,
    "MemPool": MEMORY,
    "use_mem_pool": MEMORY,
    "ExternalStream": "a stream of another library is a GPU's",
    "get_stream_from_external": "a stream of another library is a GPU's",
    "GreenContext": "a context is a part of a GPU",
    "current_blas_handle": "a handle is a GPU's",
    "current_solver_handle": "a handle is a GPU's",
}
"""Names of torch.cuda, and why the CPU cannot stand in."""


def refuse(what: str, why: str) -> NoReturn:
    """Raises for a use of `what`; the error names the user's line."""
    site = here()
    raise UsageError(
        f"--device cpu cannot stand in for {what}: {why}",
        hint="switch this part of the script off (most have an option for it), or run the audit on a machine with a GPU",
        what=what,
        line=None if site is None else str(site),
    )


def install(patches: Patches, tell: Once) -> None:
    """Replaces all of them, those of modules that are not imported yet as soon as they are."""
    for name, why in REFUSED.items():
        if hasattr(torch.cuda, name):
            patches.replace(torch.cuda, name, _refusing(f"torch.cuda.{name}", why, getattr(torch.cuda, name)))
    patches.replace(torch.accelerator, "Graph", _refusing("torch.accelerator.Graph", GRAPHS, torch.accelerator.Graph))
    jit = torch.cuda.jiterator
    for name in ("_create_jit_fn", "_create_multi_output_jit_fn"):
        patches.replace(jit, name, _refusing("torch.cuda.jiterator", "it compiles a kernel for a GPU", getattr(jit, name)))
    # Whatever is left that wants a GPU begins here, in Python and in C++ alike.
    patches.replace(torch.cuda, "_lazy_init", _refusing("this use of CUDA", "it needs a GPU", torch.cuda._lazy_init))
    later: dict[str, Callable[[ModuleType, Patches], None]] = {
        "triton.runtime.jit": _triton,
        "torch.utils.cpp_extension": _extensions,
    }
    for name in [each for each in later if each in sys.modules]:
        later.pop(name)(sys.modules[name], patches)
    patches.replace(sys, "meta_path", [_AfterImport(later, patches), *sys.meta_path])


def _refusing(what: str, why: str, old: Any) -> Any:
    def refusing(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(what, why)

    if isinstance(old, type):  # stays a class, for whoever asks isinstance or derives from it
        return type(old.__name__, (), {"__init__": refusing, "__module__": old.__module__})
    return wraps(old)(refusing)


def _triton(module: ModuleType, patches: Patches) -> None:
    def run(kernel: Any, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(f"the Triton kernel {getattr(kernel, '__name__', '')!r}", "it is compiled for a GPU")

    patches.replace(module.JITFunction, "run", run)


def _extensions(module: ModuleType, patches: Patches) -> None:
    for name in ("load", "load_inline"):
        old = getattr(module, name)

        def loading(name: str, *args: Any, _old: Callable[..., Any] = old, **kwargs: Any) -> Any:
            sources = kwargs.get("sources", args[0] if args else ())
            files = [sources] if isinstance(sources, str) else [str(each) for each in sources]
            if kwargs.get("with_cuda") or kwargs.get("cuda_sources") or any(each.endswith((".cu", ".cuh")) for each in files):
                refuse(f"the CUDA extension {name!r}", "its kernels are compiled for a GPU")
            return _old(name, *args, **kwargs)

        patches.replace(module, name, wraps(old)(loading))


class _AfterImport(MetaPathFinder):
    """Runs a function on a module right after it was imported."""

    def __init__(self, later: dict[str, Callable[[ModuleType, Patches], None]], patches: Patches) -> None:
        self._later = later
        self._patches = patches

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that others find, with a loader that calls the function last; None for every other module."""
        then = self._later.pop(name, None)  # hence the search below does not come back here
        spec = None if then is None else importlib.util.find_spec(name)
        if then is not None and spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, then, self._patches)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Any, then: Callable[[ModuleType, Patches], None], patches: Patches) -> None:
        self._loader, self._then, self._patches = loader, then, patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module, self._patches)
