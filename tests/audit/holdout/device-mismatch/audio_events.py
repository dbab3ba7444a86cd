import torch
import torch.nn.functional as F
from torch import nn


class CRNN(nn.Module):
    def __init__(self, bands=8, c=6, classes=3):
        super().__init__()
        self.conv = nn.Conv1d(bands, c, 3, padding=1)
        self.att = nn.Linear(c, 1)
        self.cls = nn.Linear(c, classes)
        self.seen = set()

    def forward(self, x):
        h = F.gelu(self.conv(x)).transpose(1, 2)
        a = self.att(h).softmax(1)
        out = self.cls((a * h).sum(1))
        self.seen.add(out.dtype)
        return out


def fit(net, opt, scaler, data, device):
    done = 0
    for x, y in data:
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):  # <-- FAULT
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        scale = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        done += scaler.get_scale() >= scale
    return done, loss.item()


def fake_audio(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        y = torch.randint(0, 3, (12,), generator=g)
        x = torch.randn(12, 8, 10, generator=g)
        x[torch.arange(12), y * 2] += 1.5
        yield x, y


if __name__ == "__main__":
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(14)
    net = CRNN().to(device)
    opt = torch.optim.RAdam(net.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**11)
    done, last = fit(net, opt, scaler, fake_audio(20), device)
    kinds = ",".join(sorted(str(d).removeprefix("torch.") for d in net.seen))
    print(f"RESULT done={done} logits={kinds} last={last:.5f}")
