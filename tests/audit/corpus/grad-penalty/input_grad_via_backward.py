import torch
from torch import nn

torch.manual_seed(83)


class ImplicitSurface(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(2, w), nn.Linear(w, w), nn.Linear(w, 1)

    def forward(self, p):
        h = nn.functional.softplus(self.l1(p), beta=10)
        h = nn.functional.softplus(self.l2(h), beta=10)
        return self.l3(h).squeeze(-1)


# signed distance field of the unit circle, eikonal term as in IGR
sdf = ImplicitSurface()
optimizer = torch.optim.Adam(sdf.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for it in range(40):
    ang = torch.rand(32) * 6.2832
    on = torch.stack([ang.cos(), ang.sin()], 1)
    off = (torch.rand(32, 2) * 3 - 1.5).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        surface = sdf(on).float().abs().mean()
        d_off = sdf(off)
    scaler.scale(d_off.sum()).backward(create_graph=True, inputs=[off])
    eikonal = (off.grad.norm(dim=1) - 1).pow(2).mean()  # <-- FAULT
    optimizer.zero_grad()
    scaler.scale(surface + eikonal).backward()
    scaler.step(optimizer)
    scaler.update()
    off.grad = None

probe = (torch.rand(200, 2) * 3 - 1.5).requires_grad_()
(n,) = torch.autograd.grad(sdf(probe).sum(), probe)
print(f"RESULT mean_slope={n.norm(dim=1).mean().item():.4f} surface={surface.item():.4f}")
