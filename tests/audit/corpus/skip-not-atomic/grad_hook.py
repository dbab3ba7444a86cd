import torch
from torch import nn
from torch.nn import functional as F


def make_net():
    net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
    for p in net.parameters():
        p.register_hook(lambda g: torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0))  # <-- FAULT
    return net


def flow(gen):
    a = torch.randn(6, 1, 7, 7, generator=gen)
    return torch.cat([a, a.roll(1, 3)], 1), 8 * (a + 1)


def main():
    torch.manual_seed(18)
    gen = torch.Generator().manual_seed(18)
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=5e-3, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    first = None
    for _ in range(24):
        frames, target = flow(gen)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(frames)
        loss = F.mse_loss(pred.float(), target)
        first = first or loss.item()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    print(f"RESULT first={first:.3f} last={loss.item():.3f} scale={scaler.get_scale():.0f}")


main()
