from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

N_GROUPS = 4


class GroupTrainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.amp = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.log = defaultdict(list)
        self.optimizer.register_step_post_hook(lambda *_: self.log["step"].append(1))

    def criterion(self, out, target, group):
        per_item = nn.functional.smooth_l1_loss(out.squeeze(-1).float(), target, reduction="none")
        parts = []
        for g in range(N_GROUPS):
            m = (group == g).float()
            parts.append((per_item * m).sum() / m.sum())  # <-- FAULT
        return torch.stack(parts).mean()

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for feats, target, group in loader:
                self.optimizer.zero_grad()
                with torch.autocast(device_type="cpu", dtype=torch.float16):
                    out = self.model(feats)
                    loss = self.criterion(out, target, group)
                self.amp.scale(loss).backward()
                self.amp.step(self.optimizer)
                self.amp.update()
                self.log["loss"].append(loss.item())


torch.manual_seed(3)
feats = torch.randn(160, 9)
target = feats[:, 0] - feats[:, 1]
group = torch.randint(0, 3, (160,))
trainer = GroupTrainer(nn.Sequential(nn.Linear(9, 18), nn.SiLU(), nn.Linear(18, 1)), lr=5e-3)
trainer.fit(DataLoader(TensorDataset(feats, target, group), batch_size=32, shuffle=True), epochs=5)
n = len(trainer.log["loss"])
print(
    f"RESULT batches={n} updates={len(trainer.log['step'])} scale={trainer.amp.get_scale():.3e} last={trainer.log['loss'][-1]:.3f}"
)
