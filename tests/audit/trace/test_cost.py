"""What an audit may cost: no wait for a device and no memory where a window is not judged, and nothing kept alive."""

import contextlib
import gc
import weakref
from unittest import mock

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from truestep.audit.trace import start, watch
from truestep.audit.trace.recorder import DENSE, RUN

POWER = 1 << DENSE.bit_length()
"""The windows from this one on are judged again, RUN of them; those after them are not."""


class Loop:
    """A plain training loop, an update at a time."""

    def __init__(self, *, scaler=True, accumulation=1, set_to_none=True, fused=None, width=64):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=fused)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, enabled=scaler)
        self.data = torch.randn(accumulation, 8, width)
        self.share = torch.tensor(1 / accumulation)
        self.set_to_none = set_to_none

    def update(self):
        for data in self.data:
            loss = self.model(data).square().mean() * self.share
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        return weakref.ref(loss)


class Reads(TorchDispatchMode):
    """Counts the numbers that leave tensors, each of which waits for a device where the tensor is on one."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return func(*args, **kwargs or {})


def reads(loop):
    seen = mock.patch.object(watch, "_disable_current_modes", contextlib.nullcontext)  # from a mode of the script's they hide
    with Reads() as counted, seen:
        for _ in range(3):
            loop.update()
    return counted.count


@contextlib.contextmanager
def watching(loop, *, judged):
    """The loop under audit, in windows that are judged or not."""
    watcher = start()
    try:
        for _ in range(3 if judged else POWER + RUN + 2):
            loop.update()
        assert watcher.recorder.judging == judged
        yield watcher.recorder
        assert watcher.recorder.judging == judged
        assert watcher.recorder.coverage()["not_judged"] == []
    finally:
        watcher.stop()


KINDS = [
    {},
    {"accumulation": 4},
    {"set_to_none": False},
    {"set_to_none": False, "accumulation": 2},
    {"scaler": False},
    {"scaler": False, "set_to_none": False},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_number_is_read_in_windows_that_are_not_judged_beyond_what_the_loop_itself_reads(kind):
    loop = Loop(**kind)
    loop.update()
    alone = reads(loop)
    with watching(loop, judged=False):
        assert reads(loop) == alone
    with watching(loop, judged=True):
        assert reads(loop) > alone  # the count counts


def peak(loop):
    """Bytes of tensors at the highest point of two updates."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        loop.update()
        loop.update()
    held = highest = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest


@pytest.mark.parametrize("accumulation", [1, 4])
def test_tensors_of_the_audit_take_no_memory_between_judged_windows_and_a_few_copies_of_the_gradients_in_them(accumulation):
    loop = Loop(accumulation=accumulation, width=128)
    loop.update()
    copy = sum(each.numel() * each.element_size() for each in loop.model.parameters())
    alone = peak(loop)
    with watching(loop, judged=False):
        assert peak(loop) == alone
    with watching(loop, judged=True):
        assert alone + copy / 2 < peak(loop) < alone + 6 * copy
    assert peak(loop) == alone


@pytest.mark.parametrize("judged", [True, False])
def test_a_graph_is_gone_when_the_loop_lets_go_of_it(judged):
    loop = Loop()
    with watching(loop, judged=judged):
        gc.disable()
        try:
            assert loop.update()() is None
        finally:
            gc.enable()


def test_models_and_optimizers_are_gone_when_the_script_lets_go_of_them():
    loop = Loop()
    with watching(loop, judged=True):
        pass
    watcher = start()
    try:
        loop.update()
        held = [weakref.ref(each) for each in (loop.model, loop.optimizer, loop.scaler, loop.scheduler)]
        del loop
        gc.collect()
        assert [each() for each in held] == [None] * 4
    finally:
        watcher.stop()
