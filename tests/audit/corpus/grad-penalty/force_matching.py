import torch
from torch import nn

torch.manual_seed(45)


def pair_energy_ref(r):
    d = torch.pdist(r) if r.dim() == 2 else torch.stack([torch.pdist(q) for q in r])
    return ((d - 1.0) ** 2).sum(-1)


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, r):
        d = torch.stack([(r[:, i] - r[:, j]).norm(dim=-1) for i in range(4) for j in range(i)], 1)
        return self.f(d.unsqueeze(-1)).squeeze(-1).sum(1)


pot = Potential()
opt = torch.optim.Adam(pot.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
for it in range(40):
    r = torch.randn(12, 4, 3, requires_grad=True)
    e_ref = pair_energy_ref(r)
    f_ref = -torch.autograd.grad(e_ref.sum(), r)[0]
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        e = pot(r)
    f = -torch.autograd.grad(scaler.scale(e.sum()), r, create_graph=True)[0]
    loss_f = (f - f_ref).pow(2).mean()  # <-- FAULT
    scaler.scale(loss_f).backward()
    scaler.step(opt)
    scaler.update()

r = torch.randn(64, 4, 3, requires_grad=True)
fr = torch.autograd.grad(pair_energy_ref(r).sum(), r)[0]
fp = torch.autograd.grad(pot(r).sum(), r)[0]
print(f"RESULT force_rmse={(fp - fr).pow(2).mean().sqrt().item():.4f} of={fr.pow(2).mean().sqrt().item():.4f}")
