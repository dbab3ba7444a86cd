import io

import torch
from global_step_lib import TrainState, spectra
from torch import nn


class Calib(nn.Module):
    def __init__(self, bands=14):
        super().__init__()
        self.conv = nn.Conv1d(1, 6, 3)
        self.fc = nn.Linear(6 * (bands - 2), 1)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x.unsqueeze(1))).flatten(1)).squeeze(1)


class Runner:
    def __init__(self, max_steps=16, bs=12, lr=2e-3):
        self.model = Calib()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
        self.state = TrainState()
        self.max_steps, self.bs = max_steps, bs
        self.blob = None

    def train_step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.l1_loss(self.model(x), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        scale = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.state.attempts += 1
        self.state.global_step += 1  # <-- FAULT
        self.state.samples_seen += len(x)
        self.state.last_scale = scale
        return loss.item()

    def checkpoint(self):
        buf = io.BytesIO()
        torch.save(
            {
                "model": self.model.state_dict(),
                "opt": self.opt.state_dict(),
                "scaler": self.scaler.state_dict(),
                "state": vars(self.state),
            },
            buf,
        )
        self.blob = buf.getvalue()

    def fit(self):
        data = spectra(self.bs, seed=1)
        while self.state.global_step < self.max_steps:
            loss = self.train_step(*next(data))
            if self.state.global_step and self.state.global_step % 8 == 0:
                self.checkpoint()
                print(f"step {self.state.global_step}/{self.max_steps} loss {loss:.4f} scale {self.state.last_scale:.0f}")
        return loss


torch.manual_seed(3)
r = Runner()
loss = r.fit()
ck = torch.load(io.BytesIO(r.blob))
adam = int(next(iter(ck["opt"]["state"].values()))["step"].item())
print(f"RESULT global_step={ck['state']['global_step']} optimizer_updates={adam} loss={loss:.4f}")
