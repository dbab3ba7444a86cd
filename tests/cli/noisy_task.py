"""A task with everything that a resume can lose: augmentation by workers, dropout, batch normalisation, a scale that moves."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import Dataset, TensorDataset

from truestep.tasks import Splits, Task


class Shaken(Dataset[tuple[Tensor, Tensor]]):
    """Items with noise, one in eight of which is so large that float16 overflows and the update is skipped."""

    def __init__(self, data: TensorDataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, y = self.data[index]
        return x + 0.1 * torch.randn_like(x), y * (2.0**18 if torch.rand(1) < 1 / 64 else 1.0)


class Noisy(Task):
    """Least squares, on windows of 16, 16 and 8 examples."""

    name = "noisy"
    batch = 16
    microbatches = 2
    updates = 40
    evaluate_every = 96
    workers: int | None = 2
    quality_name = "squared error"
    quality_better: Literal["higher", "lower"] = "lower"

    def splits(self) -> Splits:
        x = torch.linspace(-1, 1, 4 * 60).reshape(60, 4).sin()
        data = [TensorDataset(x[part], x[part].sum(dim=1, keepdim=True)) for part in torch.split(torch.arange(60), [40, 10, 10])]
        return Splits(train=Shaken(data[0]), validation=data[1], test=data[2])

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return AdamW(parameters, lr=0.01)

    def scheduler(self, optimizer: Optimizer, ticks: int) -> LRScheduler:
        return LambdaLR(optimizer, lambda tick: 1.0 - tick / (2 * ticks))

    def loss(self, model: nn.Module, microbatch: Any) -> Tensor:
        return nn.functional.mse_loss(model(microbatch[0]).float(), microbatch[1])

    def quality(self, model: nn.Module, dataset: Any) -> float:
        x, y = dataset.tensors
        return nn.functional.mse_loss(model(x), y).item()

    def digest(self) -> str:
        return "0" * 64  # its items differ from call to call


class Alone(Noisy):
    """Without workers: the microbatches are made by the run, under its own random state."""

    workers = None
