"""Buffers put back after a skip as they were before it, however a forward wrote them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from truestep.probe.buffers import Buffers

Write = Callable[[nn.Module], None]


class Holder(nn.Module):
    """A module with one buffer, whose forward is `write`."""

    def __init__(self, write: Write, buffer: Tensor | None = None, *, persistent: bool = True) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("held", buffer, persistent=persistent)

    def forward(self) -> None:
        self.write(self)


def content(model: nn.Module) -> dict[str, tuple[object, object]]:
    """Each buffer's identity and content, None included, by its name."""
    return {
        f"{name}.{key}": (id(tensor), None if tensor is None else tensor.detach().clone())
        for name, module in model.named_modules()
        for key, tensor in module._buffers.items()
    }


def same(left: dict[str, tuple[object, object]], right: dict[str, tuple[object, object]]) -> bool:
    def equal(a: object, b: object) -> bool:
        if a is None or b is None:
            return a is b
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.to_dense(), b.to_dense())

    return left.keys() == right.keys() and all(
        (a[0] == b[0]) and equal(a[1], b[1]) for a, b in zip(left.values(), right.values(), strict=True)
    )


def completed(buffers: Buffers, forward: Callable[[], object]) -> None:
    buffers.keep()
    forward()
    buffers.learn()


def skipped(buffers: Buffers, forward: Callable[[], object]) -> None:
    buffers.keep()
    forward()
    buffers.learn()
    buffers.restore()


def interrupted(buffers: Buffers, forward: Callable[[], object]) -> None:
    buffers.keep()
    forward()
    buffers.restore()


def assign(value: Callable[[Tensor], object]) -> Write:
    def write(module: nn.Module) -> None:
        module.held = value(module.held)

    return write


def set_data(value: Callable[[Tensor], Tensor]) -> Write:
    def write(module: nn.Module) -> None:
        module.held.data = value(module.held)

    return write


def register(module: nn.Module) -> None:
    module.register_buffer("held", torch.full((7,), 3.0), persistent=False)


WRITES: dict[str, Write] = {
    "nothing": lambda module: None,
    "in place": lambda module: module.held.add_(1),
    "through data": lambda module: module.held.data.add_(1),
    "through numpy": lambda module: module.held.numpy().__iadd__(1),
    "by copying": lambda module: module.held.copy_(torch.full((3,), 9)),
    "by an element": lambda module: module.held.__setitem__(0, 9),
    "by foreach": lambda module: torch._foreach_add_([module.held], 1),
    "by out=": lambda module: torch.mul(module.held, 2, out=module.held),
    "by rebinding": assign(lambda held: held + 1),
    "by rebinding and writing": lambda module: (assign(lambda held: held + 1)(module), module.held.add_(1)),
    "by writing and rebinding": lambda module: (module.held.add_(1), assign(lambda held: held + 1)(module)),
    "by growing": assign(lambda held: torch.cat([held, held])),
    "by setting data": set_data(lambda held: held + 1),
    "by setting larger data": set_data(lambda held: torch.cat([held, held])),
    "by resizing": lambda module: module.held.resize_(5).fill_(2),
    "to None": assign(lambda held: None),
    "by registering it again": register,
    "by deleting it": lambda module: delattr(module, "held"),
}


@pytest.mark.parametrize("ending", [skipped, interrupted])
@pytest.mark.parametrize("completed_before", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("name", WRITES)
def test_a_written_buffer_is_put_back(name: str, dtype: torch.dtype, completed_before: int, ending) -> None:
    model = nn.Sequential(Holder(WRITES[name], torch.arange(3).to(dtype)))
    buffers = Buffers(model)
    for _ in range(completed_before):
        if getattr(model[0], "held", None) is not None:
            completed(buffers, model[0])
    if getattr(model[0], "held", None) is None:
        return
    before = content(model)
    for _ in range(2):
        ending(buffers, model[0])
        assert same(before, content(model))


@pytest.mark.parametrize("name", WRITES)
def test_a_completed_attempt_keeps_what_was_written(name: str) -> None:
    kept, plain = (nn.Sequential(Holder(WRITES[name], torch.arange(3.0))) for _ in range(2))
    buffers = Buffers(kept)
    completed(buffers, kept[0])
    plain[0]()
    left, right = (list(content(model).values()) for model in (kept, plain))
    assert all((a is None and b is None) or torch.equal(a, b) for (_, a), (_, b) in zip(left, right, strict=True))


def test_a_buffer_of_none_is_none_again() -> None:
    model = Holder(assign(lambda held: torch.ones(2)))
    skipped(Buffers(model), model)
    assert model.held is None
    assert "held" in model._buffers


def test_a_created_buffer_is_gone_again_and_can_be_created_anew() -> None:
    model = Holder(lambda module: module.register_buffer("made", torch.ones(2), persistent=False))
    buffers = Buffers(model)
    skipped(buffers, model)
    assert "made" not in model._buffers
    completed(buffers, model)
    before = content(model)
    model.write = lambda module: module.made.data.add_(1)
    skipped(buffers, model)
    assert same(before, content(model))


def test_the_flags_beside_a_buffer_go_back_with_it() -> None:
    class Rotary(nn.Module):
        """Grows a table with the longest sequence, and remembers for which length it was made."""

        def __init__(self) -> None:
            super().__init__()
            self.longest, self.made, self.calls = 2, False, 0
            self.register_buffer("table", torch.zeros(2), persistent=False)

        def forward(self, length: int) -> Tensor:
            self.calls += 1
            if not self.made:
                self.register_buffer("first", torch.ones(1))
                self.made = True
            if length > self.longest:
                self.longest = length
                self.register_buffer("table", torch.zeros(length), persistent=False)
            return self.table[:length] + self.first

    model = Rotary()
    buffers = Buffers(model)
    for _ in range(2):
        skipped(buffers, lambda: model(5))
        assert (model.longest, model.made, model.calls, model.training) == (2, False, 0, True)
    completed(buffers, lambda: model(5))
    assert len(model(5)) == 5
    skipped(buffers, lambda: model(8))
    assert len(model(8)) == 8


def test_the_flag_of_a_module_that_had_no_buffer_goes_back_too() -> None:
    class Normalizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.made = False

        def forward(self, x: Tensor) -> Tensor:
            if not self.made:
                self.register_buffer("shift", x.mean())
                self.made = True
            return x - self.shift

    model = nn.Sequential(Normalizer())
    skipped(Buffers(model), lambda: model(torch.full((2,), float("nan"))))
    assert torch.equal(model(torch.ones(2)), torch.zeros(2))


def test_attributes_that_are_no_plain_values_stay() -> None:
    class Logs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", torch.zeros(1))
            self.output, self.part = 0, 0

        def forward(self) -> None:
            self.output, self.part, self.seen = torch.ones(1), nn.Linear(1, 1), 3
            self.eval()

    model = Logs()
    skipped(Buffers(model), model)
    assert (float(model.output), type(model.part), model.seen, model.training) == (1.0, nn.Linear, 3, False)


def test_what_was_written_between_attempts_is_kept_where_the_mode_is_new() -> None:
    model = Holder(lambda module: module.held.add_(1), torch.zeros(2)).eval()
    buffers = Buffers(model)
    completed(buffers, lambda: None)
    model.held.data.fill_(5)
    model.train()
    skipped(buffers, model)
    assert torch.equal(model.held, torch.full((2,), 5.0))


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None), nn.InstanceNorm1d(3, track_running_stats=True)]
)
@pytest.mark.parametrize("completed_before", [0, 1])
def test_running_statistics_are_put_back(norm: nn.Module, completed_before: int) -> None:
    model = nn.Sequential(copy.deepcopy(norm))
    x = torch.randn(4, 3, 5)
    buffers = Buffers(model)
    for _ in range(completed_before):
        completed(buffers, lambda: model(x))
    before = content(model)
    skipped(buffers, lambda: model(x * float("nan")))
    assert same(before, content(model))


def test_statistics_that_the_first_attempts_left_alone_are_put_back_too() -> None:
    model = nn.ModuleDict({"used": nn.BatchNorm1d(3), "dropped": nn.BatchNorm1d(3)})
    buffers = Buffers(model)
    completed(buffers, lambda: model["used"](torch.randn(4, 3)))
    completed(buffers, lambda: model["dropped"](torch.randn(4, 3)))
    before = content(model)
    skipped(buffers, lambda: model["dropped"](torch.randn(4, 3)))
    assert same(before, content(model))


def test_statistics_that_begin_to_move_in_training_are_put_back() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), Holder(lambda module: module.held.data.add_(int(module.training)), torch.zeros(1)))
    buffers = Buffers(model)

    def forward() -> None:
        model[0](torch.randn(4, 3))
        model[1]()

    model.eval()
    completed(buffers, forward)
    model.train()
    for ending in (skipped, completed, skipped):
        before = content(model)
        ending(buffers, forward)
        assert ending is completed or same(before, content(model))


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*deprecated")
@pytest.mark.parametrize("normed", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_the_vectors_of_a_spectral_norm_are_put_back(normed) -> None:
    model = normed(nn.Linear(3, 3))
    buffers = Buffers(model)
    before = content(model)
    skipped(buffers, lambda: model(torch.randn(2, 3)))
    assert same(before, content(model))


def test_a_buffer_in_two_modules_is_put_back_in_both() -> None:
    shared = torch.zeros(2)
    model = nn.Sequential(Holder(lambda module: module.held.add_(1), shared), Holder(assign(lambda held: held + 1), shared))
    buffers = Buffers(model)
    before = content(model)
    for _ in range(2):
        skipped(buffers, lambda: (model[0](), model[1]()))
        assert same(before, content(model))
    assert model[0].held is model[1].held


def test_a_module_that_is_added_later_is_kept_too() -> None:
    model = nn.Sequential(Holder(lambda module: module.held.add_(1), torch.zeros(2)))
    buffers = Buffers(model)
    completed(buffers, model[0])
    model.append(nn.BatchNorm1d(3))
    before = content(model)
    skipped(buffers, lambda: model[1](torch.randn(4, 3)))
    assert same(before, content(model))


def test_a_module_that_is_taken_out_is_left_alone() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    buffers = Buffers(model)
    completed(buffers, lambda: model(torch.randn(4, 3)))
    out = model.pop(1)
    out.running_mean.fill_(7)
    skipped(buffers, lambda: model(torch.randn(4, 3)))
    assert torch.equal(out.running_mean, torch.full((3,), 7.0))


def test_a_lazy_norm_has_fresh_statistics_after_a_skipped_first_forward() -> None:
    model = nn.LazyBatchNorm1d()
    buffers = Buffers(model)
    skipped(buffers, lambda: model(torch.full((4, 3), float("nan"))))
    assert torch.equal(model.running_mean, torch.zeros(3))
    assert torch.equal(model.running_var, torch.ones(3))
    completed(buffers, lambda: model(torch.randn(4, 3)))
    before = content(model)
    skipped(buffers, lambda: model(torch.randn(4, 3)))
    assert same(before, content(model))


@pytest.mark.parametrize(
    "buffer",
    [
        torch.tensor([float("nan"), 1.0]),
        torch.ones(0),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.ones(2).to(torch.float8_e4m3fn),
        torch.eye(2).to_sparse(),
        torch.arange(3).expand(2, 3),
        torch.zeros((), dtype=torch.int64),
    ],
)
def test_every_kind_of_buffer_can_be_kept(buffer: Tensor) -> None:
    model = Holder(assign(lambda held: None), buffer)
    buffers = Buffers(model)
    for _ in range(2):
        skipped(buffers, model)
        assert model.held is buffer


def test_a_buffer_made_in_inference_mode_is_kept() -> None:
    with torch.inference_mode():
        made = torch.ones(2)
    model = Holder(lambda module: module.held.data.add_(1), made)
    buffers = Buffers(model)
    with torch.inference_mode():
        skipped(buffers, model)
        assert torch.equal(model.held, torch.ones(2))


def test_a_moved_model_is_kept_as_it_is_now() -> None:
    model = Holder(lambda module: module.held.add_(1), torch.zeros(2))
    buffers = Buffers(model)
    completed(buffers, model)
    model.double()
    before = content(model)
    skipped(buffers, model)
    assert same(before, content(model))
    assert model.held.dtype is torch.float64


def test_what_no_forward_writes_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    renew = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda copies, tensors: copied.append(len(copies)) or renew(copies, tensors))
    model = nn.Sequential(Holder(lambda module: None, torch.zeros(2)), Holder(lambda module: module.held.add_(1), torch.zeros(2)))
    buffers = Buffers(model)
    for _ in range(4):
        completed(buffers, model[1])
    completed(buffers, model[0])
    completed(buffers, model[0])
    assert copied == [1, 1, 1, 1]


def test_a_model_without_buffers_has_nothing_to_keep() -> None:
    model = nn.Linear(2, 2)
    skipped(Buffers(model), lambda: model(torch.ones(1, 2)))
    assert content(model) == {}
