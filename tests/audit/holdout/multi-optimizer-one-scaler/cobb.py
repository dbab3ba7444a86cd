import torch
from cobb_lib import OptimizerBundle
from torch import nn


class RecModel(nn.Module):
    def __init__(self, users=12, items=15, k=6):
        super().__init__()
        self.users = nn.Embedding(users, k)
        self.items = nn.Embedding(items, k)
        self.tower = nn.Sequential(nn.Linear(2 * k, 16), nn.ReLU(), nn.Linear(16, 1))
        for e in (self.users, self.items):
            nn.init.normal_(e.weight, std=0.5)

    def forward(self, u, i):
        return self.tower(torch.cat([self.users(u), self.items(i)], -1)).squeeze(-1)

    def tables(self):
        return [self.users.weight, self.items.weight]


def interactions(seed, n=40):
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randint(0, 12, (n,), generator=g),
        torch.randint(0, 15, (n,), generator=g),
    )


def rating(u, i):
    return torch.sin(u.float()) * torch.cos(i.float())


def probe_norm(params):
    return torch.stack([p.grad.norm() for p in params]).norm().item()


def main():
    torch.manual_seed(17)
    model = RecModel()
    tables = model.tables()
    dense = torch.optim.SGD(model.tower.parameters(), lr=0.05)
    sparse = torch.optim.SGD(tables, lr=0.05)
    seen = []
    sparse.register_step_pre_hook(lambda *a: seen.append(probe_norm(tables)))
    bundle = OptimizerBundle({"dense": dense, "sparse": sparse}, init_scale=256.0, growth_interval=3)
    exact = []
    for step in range(12):
        u, i = interactions(step)
        bundle.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(u, i)
            loss = nn.functional.mse_loss(out, rating(u, i))
        exact.append(torch.stack([g.norm() for g in torch.autograd.grad(loss, tables, retain_graph=True)]).norm().item())
        bundle.backward(loss)
        bundle.step()
    ratios = [s / e for s, e in zip(seen, exact, strict=False)]
    print("scale", bundle.scale, "loss", f"{loss.item():.4f}")
    print(f"RESULT steps={len(seen)} sparse_grad_ratio_min={min(ratios):.3f} max={max(ratios):.3f} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
