import torch
from torch import nn

torch.manual_seed(50)
net = nn.Sequential(nn.Linear(9, 18), nn.CELU(), nn.Linear(18, 2))
theta = list(net.parameters())
optimiser = torch.optim.SGD(theta, lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)


def pinball(y_hat, y, tau):
    e = y - y_hat
    return torch.maximum(tau * e, (tau - 1) * e).mean()


def project(ga, gb):
    # PCGrad, Yu et al. 2020: drop from ga what conflicts with gb
    dot = sum((a * b).sum() for a, b in zip(ga, gb))
    if dot < 0:
        n = sum((b * b).sum() for b in gb)
        ga = [a - dot / n * b for a, b in zip(ga, gb)]
    return ga


def batches():
    while True:
        x = torch.randn(32, 9)
        yield x, x[:, :1] + 3.0, x[:, 1:2] - 3.0


for t, (x, y_hi, y_lo) in zip(range(60), batches()):
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
    hi, lo = pinball(out[:, :1].float(), y_hi, 0.8), pinball(out[:, 1:].float(), y_lo, 0.2)
    g_hi = torch.autograd.grad(scaler.scale(hi), theta, retain_graph=True)
    g_lo = torch.autograd.grad(lo, theta)  # <-- FAULT
    for p, a, b in zip(theta, project(g_hi, g_lo), project(g_lo, g_hi)):
        p.grad = a + b
    scaler.step(optimiser)
    scaler.update()
print(f"RESULT hi={hi.item():.4f} lo={lo.item():.4f}")
