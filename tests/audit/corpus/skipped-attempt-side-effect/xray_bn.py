import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, n=80):
        g = torch.Generator().manual_seed(13)
        self.img = torch.randn(n, 1, 8, 8, generator=g)
        self.lab = (self.img.mean((1, 2, 3)) > 0).long()
        self.img[37] = 3e5  # saturated detector

    def __len__(self):
        return len(self.lab)

    def __getitem__(self, i):
        return self.img[i], self.lab[i]


def resblock(c):
    return nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU())


class ScanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3)
        with torch.no_grad():
            self.stem.weight.copy_(torch.linspace(-0.2, 0.6, 54).view_as(self.stem.weight))
        self.block = resblock(6)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        h = self.stem(x)
        h = h + self.block(h)
        return self.head(h.mean((2, 3)))


def accuracy(model, ds):
    model.eval()
    with torch.no_grad():
        out = torch.stack([model(ds[i][0][None])[0] for i in range(30)])
    return (out.argmax(1) == ds.lab[:30]).float().mean().item(), bool(out.isfinite().all())


torch.manual_seed(13)
ds = Scans()
model = ScanNet()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
model.train()
for img, lab in DataLoader(ds, batch_size=8):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(img)  # <-- FAULT
        loss = nn.functional.cross_entropy(logits, lab)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()

acc, finite = accuracy(model, ds)
print(f"RESULT eval_finite={finite} acc={acc:.2f} scale={scaler.get_scale():.0f}")
