import torch
from torch import nn
from torch.nn import functional as F


class SparseFFN(nn.Module):
    def __init__(self, dim, n_expert):
        super().__init__()
        self.inp = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, n_expert)
        self.w = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_expert))

    def forward(self, x):
        x = self.inp(x)
        pick = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        with torch.autocast("cpu", dtype=torch.float16):
            for e, ffn in enumerate(self.w):
                (rows,) = torch.where(pick == e)
                out.index_add_(0, rows, ffn(x[rows]))
        return F.gelu(out)


class Run:
    def __init__(self):
        torch.manual_seed(64)
        self.ffn = SparseFFN(16, 3)
        self.cls = nn.Linear(16, 4)
        self.opt = torch.optim.SGD([*self.ffn.parameters(), *self.cls.parameters()], lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def iterate(self, n):
        for _ in range(n):
            x = torch.randn(24, 16)
            y = x[:, :4].argmax(-1)
            self.opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.cls(self.ffn(x)), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            yield loss.item()


trail = list(Run().iterate(9))
print(f"RESULT n={len(trail)} loss={trail[-1]:.4f}")
