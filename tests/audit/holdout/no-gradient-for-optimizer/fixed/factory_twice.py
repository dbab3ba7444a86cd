import torch
from torch.nn.functional import cross_entropy

from factory_twice_lib import Recipe


def gaussians(n, seed, bs=24):
    g = torch.Generator().manual_seed(seed)
    mu = torch.randn(3, 8, generator=g)
    for _ in range(n):
        y = torch.randint(0, 3, (bs,), generator=g)
        yield mu[y] + torch.randn(bs, 8, generator=g), y


def run(recipe, steps):
    torch.manual_seed(0)
    net = recipe.model
    optim = recipe.optimizer(net)
    amp = torch.amp.GradScaler("cpu", init_scale=1024.0)
    curve = []
    for x, y in gaussians(steps, seed=5):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = cross_entropy(net(x).float(), y)
        optim.zero_grad()
        amp.scale(loss).backward()
        amp.step(optim)
        amp.update()
        curve.append(loss.item())
    return net, curve


if __name__ == "__main__":
    net, curve = run(Recipe("mlp", lr=0.01, wd=0.02, width=12), steps=20)
    net.eval()
    with torch.no_grad():
        acc = sum((net(x).argmax(1) == y).float().mean().item() for x, y in gaussians(4, seed=5)) / 4
    print(f"RESULT first={curve[0]:.4f} last={curve[-1]:.4f} acc={acc:.3f}")
