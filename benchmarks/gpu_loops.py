"""One whole update on a CUDA device: by hand, by others and by truestep, as update_overhead.py has them on the processor."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
from torch import nn

import truestep

MICRO = 4
loss_fn = nn.functional.cross_entropy


class Loops:
    """Contenders at one width under "bf16" or "fp16"; each returns its seconds and its parameters. No loop reads a loss."""

    def __init__(self, width: int, batch: int, updates: int, policy: str, device: str = "cuda") -> None:
        self.WIDTH, self.BATCH, self.UPDATES, self.policy, self.device = width, batch, updates, policy, device
        self.dtype = torch.bfloat16 if policy == "bf16" else torch.float16
        self.time: Any = time
        torch.manual_seed(0)
        self.DATA = [
            (torch.randn(batch, width, device=device), torch.randint(0, 10, (batch,), device=device))
            for _ in range(MICRO * updates)
        ]

    def make(self) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
        """Model, optimizer and schedule."""
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (nn.Linear(self.WIDTH, self.WIDTH), nn.GELU())]
        model = nn.Sequential(*layers, nn.Linear(self.WIDTH, 10)).to(self.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        return model, optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=1000)

    def hand(self) -> tuple[float, list[Any]]:
        """By hand: under fp16 with a GradScaler, under bf16 without one."""
        model, optimizer, scheduler = self.make()
        params = list(model.parameters())
        scaler = torch.amp.GradScaler(self.device, enabled=self.policy == "fp16")
        start = self.time.perf_counter()
        for i, (x, y) in enumerate(self.DATA):
            with torch.autocast(self.device, dtype=self.dtype):
                loss = loss_fn(model(x), y) / MICRO
            scaler.scale(loss).backward()
            if (i + 1) % MICRO == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(params, 1.0)
                scaler.step(optimizer)
                scaler.update()
                scheduler.step()
                optimizer.zero_grad()
        return self.time.perf_counter() - start, params

    def ours(self) -> tuple[float, list[Any]]:
        """truestep."""
        model, optimizer, scheduler = self.make()
        update = truestep.Update(
            model,
            optimizer,
            loss=lambda model, batch: loss_fn(model(batch[0]), batch[1]),
            policy=self.policy,
            clip=truestep.ClipNorm(1.0),
            scheduler=scheduler,
        )
        start = self.time.perf_counter()
        for window in truestep.windows(self.DATA, MICRO):
            update(window)
        return self.time.perf_counter() - start, list(model.parameters())

    def accelerate(self) -> tuple[float, list[Any]]:
        """Accelerate."""
        from accelerate import Accelerator  # noqa: PLC0415 - a contender that may be absent

        acc = Accelerator(mixed_precision=self.policy, gradient_accumulation_steps=MICRO)
        model, optimizer, scheduler = acc.prepare(*self.make())
        start = self.time.perf_counter()
        for x, y in self.DATA:
            with acc.accumulate(model):
                acc.backward(loss_fn(model(x), y))
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        return self.time.perf_counter() - start, list(model.parameters())

    def fabric(self) -> tuple[float, list[Any]]:
        """Fabric; its `clip_gradients` unscales what it clips."""
        from lightning_fabric import Fabric  # noqa: PLC0415 - a contender that may be absent

        fab = Fabric(accelerator=self.device, devices=1, precision="bf16-mixed" if self.policy == "bf16" else "16-mixed")
        model, optimizer, scheduler = self.make()
        model, optimizer = fab.setup(model, optimizer)
        start = self.time.perf_counter()
        for i, (x, y) in enumerate(self.DATA):
            last = (i + 1) % MICRO == 0
            with fab.no_backward_sync(model, enabled=not last):
                fab.backward(loss_fn(model(x), y) / MICRO)
            if last:
                fab.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        return self.time.perf_counter() - start, list(model.parameters())

    def trainer(self) -> tuple[float, list[Any]]:
        """The Trainer of Transformers, from its first update on."""
        from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments  # noqa: PLC0415 - likewise

        loops = self

        class WithLoss(nn.Module):
            def __init__(self, model: nn.Module) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
                return {"loss": loss_fn(self.model(x), y)}

        class Light(Trainer):
            def get_train_dataloader(self) -> Any:
                return torch.utils.data.DataLoader(self.train_dataset, batch_size=None)

        class Stopwatch(TrainerCallback):
            start = end = None

            def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if self.start is None:
                    self.start = loops.time.perf_counter()

            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if state.global_step == loops.UPDATES:
                    self.end = loops.time.perf_counter()

        model, optimizer, scheduler = self.make()
        stopwatch: Any = Stopwatch()
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                bf16=self.policy == "bf16",
                fp16=self.policy == "fp16",
                max_steps=self.UPDATES,
                gradient_accumulation_steps=MICRO,
                max_grad_norm=1.0,
                per_device_train_batch_size=self.BATCH,
                logging_strategy="no",
                logging_nan_inf_filter=False,
                save_strategy="no",
                report_to="none",
                log_level="error",
                disable_tqdm=True,
                remove_unused_columns=False,
                dataloader_pin_memory=False,
            )
            rows = [{"x": x, "y": y} for x, y in self.DATA]
            light = Light(
                model=WithLoss(model),
                args=arguments,
                train_dataset=rows,
                optimizers=(optimizer, scheduler),
                callbacks=[stopwatch],
            )
            light.remove_callback(PrinterCallback)
            light.train()
        return stopwatch.end - stopwatch.start, list(model.parameters())
