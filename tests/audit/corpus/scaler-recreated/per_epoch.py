from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mixup(x, y):
    lam = torch.distributions.Beta(0.4, 0.4).sample()
    perm = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


class Classifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        tok = self.conv(x).flatten(2).transpose(1, 2)
        tok = tok + self.attn(tok, tok, tok, need_weights=False)[0]
        return self.fc(tok.mean(1))


class Fitter:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.03)
        self.events = Counter()

    def epoch(self, loader):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21)  # <-- FAULT
        for x, y in loader:
            x, ya, yb, lam = mixup(x, y)
            self.opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                out = self.model(x)
                loss = lam * nn.functional.cross_entropy(out, ya) + (1 - lam) * nn.functional.cross_entropy(out, yb)
            scaler.scale(loss).backward()
            s = scaler.get_scale()
            scaler.step(self.opt)
            scaler.update()
            self.events["skipped" if scaler.get_scale() < s else "applied"] += 1


torch.manual_seed(1)
X = torch.randn(96, 1, 7, 7)
Y = (X[:, 0, 0, :4]).argmax(1)
fit = Fitter(Classifier())
for _ in range(4):
    fit.epoch(DataLoader(TensorDataset(X, Y), batch_size=12, shuffle=True))
print(f"RESULT applied={fit.events['applied']} skipped={fit.events['skipped']}")
