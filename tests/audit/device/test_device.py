"""What a script that names CUDA meets on the CPU: device names, moves, answers, refusals, and the way back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, TensorDataset

from truestep.audit.device import install
from truestep.audit.device.tensors import FACTORIES
from truestep.audit.trace.patches import Patches
from truestep.errors import UsageError

NEED_NO_GPU = {
    *("CudaError", "DeferredCudaCallError", "amp", "check_error", "cudaStatus", "get_allocator_backend", "graph_annotations"),
    *("graphs", "has_half", "has_magma", "is_initialized", "jiterator", "memory", "nccl", "nvtx", "profiler", "random", "sparse"),
    *("streams", "tunable"),
}
"""Names of torch.cuda that are left as they are: modules, kinds of errors, facts of the build."""


@pytest.fixture
def told() -> Iterator[dict[str, str]]:
    patches, said = Patches(), dict[str, str]()
    install("cpu", patches, said.__setitem__)
    yield said
    patches.undo()


def test_all_is_taken_back() -> None:
    owners = (torch, torch.Tensor, torch.cuda, torch.accelerator, torch.amp, torch.distributed, DataLoader, sys)
    before = [dict(vars(owner)) for owner in owners]
    patches = Patches()
    install("cpu", patches, lambda what, why: None)
    assert vars(torch)["zeros"] is not before[0]["zeros"]
    patches.undo()
    for owner, names in zip(owners, before, strict=True):
        assert {name for name, value in vars(owner).items() if names.get(name) is not value} == set()


def test_every_function_of_torch_that_takes_a_device_is_replaced() -> None:
    schemas = torch._C._jit_get_all_schemas()
    takers = {schema.name.removeprefix("aten::") for schema in schemas if any(each.name == "device" for each in schema.arguments)}
    public = {name for name in takers if hasattr(torch, name) and not name.startswith("_")}
    assert public - {"Generator"} <= set(FACTORIES)


def test_every_name_of_torch_cuda_is_replaced_or_needs_no_gpu() -> None:
    names = {name for name in torch.cuda.__all__ if not name.endswith(("Tensor", "Storage"))}
    before = {name: getattr(torch.cuda, name) for name in names}
    patches = Patches()
    install("cpu", patches, lambda what, why: None)
    left = {name for name in names if getattr(torch.cuda, name) is before[name]}
    patches.undo()
    assert left == NEED_NO_GPU


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:3", 0, torch.device("cuda"), torch.device("cuda", 1)])
def test_every_way_to_name_cuda_means_the_cpu(told: dict[str, str], device: object) -> None:
    x = torch.ones(2)
    made = [
        torch.zeros(2, device=device), torch.tensor([1.0], device=device), torch.zeros_like(x, device=device),
        torch.fft.fftfreq(3, device=device), x.new_zeros(2, device=device), x.to(device), x.to(device=device),
        x.to(device, torch.float64), x.cuda(device), nn.Linear(2, 2, device=device).weight, nn.Linear(2, 2).to(device).weight,
        nn.Linear(2, 2).cuda(device).weight, nn.Linear(2, 2, device="meta").to_empty(device=device).weight,
    ]  # fmt: skip
    assert {str(each.device) for each in made} == {"cpu"}
    assert made[7].dtype == torch.float64
    assert torch.zeros(2, device="meta").is_meta


def test_a_move_to_cuda_or_back_copies(told: dict[str, str]) -> None:
    x = torch.zeros(3)
    for moved in (x.to("cuda"), x.cuda(), x.to(0, torch.float32, False, False), x.cpu(), x.to("cpu"), x.to(device="cuda")):
        moved.add_(1)
    assert torch.equal(x, torch.zeros(3))
    array = torch.zeros(3).numpy()
    torch.as_tensor(array, device="cuda").add_(1)
    assert array.sum() == 0


def test_a_leaf_that_trains_stays_itself_and_an_input_keeps_its_graph(told: dict[str, str]) -> None:
    leaf = torch.ones(2, requires_grad=True)
    assert leaf.to("cuda") is leaf
    (leaf * 2).cuda().sum().cpu().backward()
    assert torch.equal(leaf.grad, torch.full((2,), 2.0))


def test_a_tensor_says_cpu_and_the_report_says_so(told: dict[str, str]) -> None:
    assert not torch.ones(2).cuda().is_cuda
    assert "x.device.type == 'cuda' is false" in told["x.is_cuda -> False"]


def test_cuda_casts_to_float16_where_the_cpu_casts_to_bfloat16(told: dict[str, str]) -> None:
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    with torch.autocast("cuda"):
        assert layer(x).dtype == torch.get_autocast_dtype("cuda") == torch.float16
        assert torch.is_autocast_enabled()
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.autocast("cuda"):  # the inner one follows the outer one
        assert layer(x).dtype == torch.bfloat16
    with torch.autocast("cpu"):
        assert layer(x).dtype == torch.bfloat16


def test_a_scaler_for_cuda_is_on(told: dict[str, str]) -> None:
    for scaler in (torch.amp.GradScaler(), torch.amp.GradScaler("cuda"), torch.GradScaler(device="cuda")):
        assert scaler.is_enabled()
        assert scaler.scale(torch.ones(())).item() == 65536


def test_the_default_device_may_be_cuda_under_a_mode_and_meta_within(told: dict[str, str]) -> None:
    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passing(), torch.device("cuda"):
        assert torch.get_default_device() == torch.device("cuda", 0)
        assert str(nn.Linear(2, 2).weight.device) == "cpu"
        with torch.device("meta"):
            assert torch.ones(2).is_meta
        assert torch.ones(2, device="cuda").sum() == 2
    assert torch.get_default_device() == torch.device("cpu")


def test_a_checkpoint_of_a_gpu_is_loaded(told: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        torch.save(torch.arange(3), tmp_path / "gpu.pt")
    wheres = (
        None,
        "cuda",
        "cuda:1",
        "cpu",
        torch.device("cuda"),
        {"cuda:0": "cuda:1"},
        lambda storage, location: storage.cuda(1),
    )
    for where in wheres:
        assert torch.equal(torch.load(tmp_path / "gpu.pt", map_location=where), torch.arange(3))


def test_seeding_cuda_leaves_the_cpus_generator(told: dict[str, str]) -> None:
    before = torch.get_rng_state()
    torch.cuda.manual_seed_all(3)
    state = torch.cuda.get_rng_state()
    torch.cuda.manual_seed(4)
    assert not torch.equal(torch.cuda.get_rng_state(), state)
    torch.cuda.set_rng_state_all([state])
    assert torch.equal(torch.cuda.get_rng_state_all()[0], state)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_for_cuda_draws_on_the_cpu(told: dict[str, str]) -> None:
    draws = [torch.randn(2, generator=torch.Generator(device).manual_seed(5), device=device) for device in ("cuda", "cpu")]
    assert torch.equal(*draws)
    assert isinstance(torch.default_generator, torch.Generator)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_pins_gives_its_batches(told: dict[str, str], workers: int) -> None:
    loader = DataLoader(TensorDataset(torch.arange(4.0)), 2, False, None, None, workers, None, True)
    assert [float(batch.sum()) for (batch,) in loader] == [1.0, 5.0]
    assert "DataLoader(pin_memory=True) -> False" in told


def test_events_measure_the_cpus_time_and_streams_wait_for_nothing(told: dict[str, str]) -> None:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        begin.elapsed_time(end)
    with torch.cuda.stream(torch.cuda.Stream()):
        begin.record()
        end = torch.cuda.current_stream().record_event(end)
    assert begin.elapsed_time(end) >= 0
    assert end.query()


def test_the_chosen_device_is_remembered_and_there_is_one_for_each_rank(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    torch.cuda.set_device("cuda:2")
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (4, 2)


def test_torchs_own_code_is_told_the_truth(told: dict[str, str]) -> None:
    asks = compile("answer = torch.cuda.is_available()", "asks.py", "exec")
    for name, answer in (("torch.nn.somewhere", False), ("torchvision.somewhere", True)):
        names = {"torch": torch, "__name__": name}
        exec(asks, names)
        assert names["answer"] is answer


def test_a_compiled_function_may_name_cuda(told: dict[str, str]) -> None:
    def made(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda"):
            return x.to("cuda") @ torch.ones(2, 2, device="cuda")

    assert torch.compile(made, backend="eager")(torch.ones(2, 2)).dtype == torch.float16


def test_attention_of_a_gpus_kernel_runs(told: dict[str, str]) -> None:
    q = torch.ones(1, 1, 2, 4, device="cuda")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        assert functional.scaled_dot_product_attention(q, q, q).shape == q.shape


def test_what_the_cpu_cannot_do_is_refused_by_name_at_the_users_line(told: dict[str, str]) -> None:
    with pytest.warns(UserWarning, match="beta"):
        sparse = torch.eye(2).to_sparse_csr()
    asked = {
        "torch.cuda.CUDAGraph": lambda: torch.cuda.CUDAGraph(keep_graph=True),
        "torch.cuda.graph": lambda: torch.cuda.graph(None),
        "sparse compressed": lambda: sparse.to("cuda"),
        "torch.sparse_csr_tensor": lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], device="cuda"),
        "jiterator": lambda: torch.cuda.jiterator._create_jit_fn("code"),
        "this use of CUDA": lambda: torch.UntypedStorage(2, device="cuda"),
    }
    for name, ask in asked.items():
        with pytest.raises(UsageError, match=name) as error:
            ask()
        assert error.value.line == f"{__file__}:{ask.__code__.co_firstlineno}"


def test_kernels_of_modules_that_are_imported_later_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, patches = ("triton", "triton.runtime", "triton.runtime.jit"), Patches()
    with monkeypatch.context() as patch:
        for name in [each for each in sys.modules if each.partition(".")[0] == "triton"]:
            patch.delitem(sys.modules, name)
        install("cpu", patches, lambda what, why: None)
        patch.syspath_prepend(str(tmp_path))
        for name in names:
            tmp_path.joinpath(*name.split(".")).mkdir()
            tmp_path.joinpath(*name.split("."), "__init__.py").write_text("class JITFunction:\n    def run(self): return 1\n")
        kernel = importlib.import_module("triton.runtime.jit").JITFunction()
        with pytest.raises(UsageError, match="Triton"):
            kernel.run()
        patches.undo()
        assert kernel.run() == 1
        for name in names:
            patch.delitem(sys.modules, name)


def test_an_extension_with_cuda_sources_is_refused_and_another_is_not(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from truestep.audit.device import refused  # noqa: PLC0415 - the function is the import's, run here on a stand-in

    extension = ModuleType("extension")
    extension.load = extension.load_inline = lambda name, *args, **kwargs: name
    patches = Patches()
    refused._extensions(extension, patches)
    assert extension.load("plain", sources=["a.cpp"]) == "plain"
    for ask in (lambda: extension.load("a", ["k.cu"]), lambda: extension.load_inline("a", "", cuda_sources="k")):
        with pytest.raises(UsageError, match="CUDA extension 'a'"):
            ask()


def test_only_the_cpu_stands_in() -> None:
    with pytest.raises(UsageError, match="--device mps"):
        install("mps", Patches(), lambda what, why: None)
