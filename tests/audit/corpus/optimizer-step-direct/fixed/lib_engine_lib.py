from contextlib import nullcontext

import torch


class Engine:
    def __init__(self, model, optimizer, fp16=False):
        self.model = model
        self.optimizer = optimizer
        self.fp16 = fp16
        self.scaler = torch.amp.GradScaler("cpu", init_scale=16384.0) if fp16 else None
        self.last_loss = float("nan")

    def _ctx(self):
        return torch.autocast("cpu", dtype=torch.float16) if self.fp16 else nullcontext()

    def train_on(self, loss_fn, *batch):
        self.model.train()
        with self._ctx():
            loss = loss_fn(*batch)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.last_loss = loss.item()
        return self.last_loss
