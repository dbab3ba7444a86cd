import itertools

import torch
import torch.nn.functional as F
from torch import nn


class TinyUNet(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.down = nn.Conv2d(1, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.Conv2d(ch * 2, 1, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.mid(F.max_pool2d(a, 2)))
        b = F.interpolate(b.float(), scale_factor=2)
        return self.up(torch.cat([a.float(), b], 1))


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        img = torch.rand(n, 1, 8, 8, generator=g)
        yield img, (img > 0.6).float()


class Trainer:
    def __init__(self, net, lr=0.02, accumulate=6, clip=0.5):
        self.net = net
        self.accumulate = accumulate
        self.clip = clip
        self.optim = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
        self.norms = []

    def forward_backward(self, img, mask):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.net(img)
        loss = F.binary_cross_entropy_with_logits(logits.float(), mask)
        self.scaler.scale(loss).backward()  # <-- FAULT
        return loss.item()

    def apply(self):
        self.scaler.unscale_(self.optim)
        self.norms.append(float(nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)))
        self.scaler.step(self.optim)
        self.scaler.update()
        self.optim.zero_grad()

    def fit(self, stream, updates):
        self.optim.zero_grad()
        history = []
        for _ in range(updates):
            chunk = itertools.islice(stream, self.accumulate)
            history.append(sum(self.forward_backward(*b) for b in chunk) / self.accumulate)
            self.apply()
        return history


if __name__ == "__main__":
    torch.manual_seed(7)
    t = Trainer(TinyUNet())
    hist = t.fit(blobs(4, 3), updates=5)
    print("loss per update:", " ".join(f"{h:.3f}" for h in hist))
    print(f"RESULT first_grad_norm={t.norms[0]:.4f} clipped={sum(n > t.clip for n in t.norms)}/{len(t.norms)}")
