import torch
from torch import nn, optim


class Regressor(nn.Module):
    def __init__(self, n_in: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(n_in)
        self.lin1 = nn.Linear(n_in, width)
        self.lin2 = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin2(torch.relu(self.lin1(self.norm(x))))


def param_groups(model: nn.Module, wd: float) -> list[dict]:
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 else decay).append(p)
    return [
        {"params": decay, "weight_decay": wd, "max_norm": 1.0},
        {"params": no_decay, "weight_decay": 0.0, "max_norm": 0.1},
    ]


def main() -> None:
    torch.manual_seed(17)
    model = Regressor(8, 24)
    opt = optim.AdamW(param_groups(model, 0.05), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    norms: list[float] = []
    for _ in range(15):
        x = torch.randn(32, 8)
        y = x.pow(2).sum(1, keepdim=True) / 8
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        for group in opt.param_groups:
            scaler.unscale_(opt)  # <-- FAULT
            norms.append(nn.utils.clip_grad_norm_(group["params"], group["max_norm"]).item())
        scaler.step(opt)
        scaler.update()
    print(f"RESULT clips={len(norms)} mean_norm={sum(norms) / len(norms):.4f}")


main()
