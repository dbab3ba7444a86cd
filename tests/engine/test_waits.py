"""An attempt asks its device for numbers once, whatever it holds: every such question waits for all that is queued there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import truestep
from tests.engine.loops import OPTIMIZERS, batch, cross_entropy, mlp
from truestep.engine import host, work
from truestep.engine.host import to_host


class Questions(TorchDispatchMode):
    """Counts the operations that hand a number of a tensor to Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default or func is torch.ops.aten.equal.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
@pytest.mark.parametrize("optimizer", ["sgd", "fused adamw"])
def test_all_questions_of_an_attempt_are_asked_together(policy: str, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(numbers: Any) -> list[float]:
        asked.append(sum(isinstance(number, torch.Tensor) for number in numbers))
        with torch.utils._python_dispatch._disable_current_modes():
            return to_host(numbers)

    monkeypatch.setattr(work, "to_host", counted)
    update = truestep.Update(
        mlp(),
        OPTIMIZERS[optimizer],
        loss=cross_entropy,
        policy=policy,
        clip=truestep.ClipNorm(0.1),
        scheduler=torch.optim.lr_scheduler.LinearLR,
    )
    for seed in range(2):  # the first looks at weights and buffers
        update([batch(8, seed), batch(4, seed + 9)])
    asked.clear()
    with Questions() as questions:
        assert update([batch(8, 2), batch(4, 11)]).completed
    assert [many for many in asked if many] == [
        1 + (policy == "bf16-master")
    ]  # the norm, and whether a parameter is its master's
    losses_of_a_processor = 2
    assert questions.count == losses_of_a_processor


def test_numbers_keep_their_order_and_their_last_bit() -> None:
    found = to_host(
        [1.0, torch.tensor(1e-40), 2.0, torch.tensor(1 + 2.0**-52, dtype=torch.float64), torch.tensor([3], dtype=torch.int64)]
    )
    assert found == [1.0, float(torch.tensor(1e-40)), 2.0, 1 + 2.0**-52, 3.0]


def test_what_lies_on_the_cpu_beside_a_device_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeTensorMode():
        norm, loss = (torch.zeros((), device="cuda") for _ in range(2))
    monkeypatch.setattr(host, "_fetched", lambda scalars: [float(place) for place, each in enumerate(scalars) if each.is_cuda])
    rate = torch.tensor(0.25, requires_grad=True)  # torch's optimizers take one on the CPU for parameters anywhere
    assert to_host([norm, rate, 0.5, loss]) == [0.0, 0.25, 0.5, 1.0]
