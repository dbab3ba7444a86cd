import torch
from torch import nn

torch.manual_seed(8)
THRESH = 2e-3
EPOCHS, BATCHES = 3, 6


class WideNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(32, 10, mode="sum")
        self.ln = nn.LayerNorm(10)
        self.fc = nn.Linear(10, 5)

    def forward(self, idx):
        return self.fc(self.ln(self.bag(idx)))


def drop_small(model, thresh):
    kept = total = 0
    for p in model.parameters():
        keep = p.grad.abs() >= thresh
        p.grad.mul_(keep)  # <-- FAULT
        kept += int(keep.sum())
        total += keep.numel()
    return kept / total


def loader(seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(BATCHES):
        idx = torch.randint(0, 32, (16, 4), generator=g)
        yield idx, idx.max(1).values % 5


model = WideNet()
opt = torch.optim.RMSprop(model.parameters(), lr=5e-3, momentum=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
density = []
for epoch in range(EPOCHS):
    run = 0.0
    for idx, y in loader(epoch):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(idx), y)
        scaler.scale(loss).backward()
        density.append(drop_small(model, THRESH))
        scaler.step(opt)
        scaler.update()
        run += loss.item()
    print(f"epoch {epoch}: loss {run / BATCHES:.3f} density {density[-1]:.2f}")
print(f"RESULT density={sum(density) / len(density):.4f} loss={run / BATCHES:.4f}")
