import torch
from torch import nn

CFG = {"batch": 6, "n": 60, "accum": 4, "epochs": 3, "lr": 0.2, "opt": "sgd"}


def make_optimizer(name, params, lr):
    return {"sgd": torch.optim.SGD, "rprop": torch.optim.Rprop}[name](params, lr=lr)


class Bilinear(nn.Module):
    def __init__(self, d=5, r=4):
        super().__init__()
        self.u, self.v = nn.Linear(d, r, bias=False), nn.Linear(d, r, bias=False)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        return (self.u(a) * self.v(b)).sum(-1) + self.bias


class Data:
    def __init__(self, n, batch):
        g = torch.Generator().manual_seed(2)
        self.a, self.b = torch.randn(n, 5, generator=g), torch.randn(n, 5, generator=g)
        self.y = (self.a * self.b).sum(-1) * 0.3 + 0.5
        self.batch = batch

    def __len__(self):
        return len(self.a) // self.batch

    def __iter__(self):
        yield from zip(*(t.split(self.batch) for t in (self.a, self.b, self.y)), strict=True)


def train(cfg):
    torch.manual_seed(0)
    data = Data(cfg["n"], cfg["batch"])
    model = Bilinear()
    opt = make_optimizer(cfg["opt"], model.parameters(), cfg["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    norms = []
    for epoch in range(cfg["epochs"]):
        seen = 0.0
        for i, (a, b, y) in enumerate(data, start=1):
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(a, b)
                loss = nn.functional.mse_loss(pred.float(), y)
            seen += loss.item()
            window = cfg["accum"] if i <= len(data) // cfg["accum"] * cfg["accum"] else len(data) % cfg["accum"]
            scaler.scale(loss / window).backward()
            if i % cfg["accum"] and i != len(data):
                continue
            scaler.unscale_(opt)
            norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
        print(f"epoch {epoch} mse {seen / len(data):.4f} updates {len(norms)}")
    return model, norms, seen / len(data)


model, norms, mse = train(CFG)
tail = norms[2::3]
print(f"RESULT updates={len(norms)} tail_norms={','.join(f'{n:.4f}' for n in tail)} mse={mse:.5f} bias={model.bias.item():.5f}")
