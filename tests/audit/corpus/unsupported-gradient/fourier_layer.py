import torch
from torch import nn


class SpectralConv1d(nn.Module):
    def __init__(self, c, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(c, c, modes, dtype=torch.cfloat) / c)  # <-- FAULT

    def forward(self, x):
        xf = torch.fft.rfft(x.float())
        out = torch.zeros_like(xf)
        out[..., : self.modes] = torch.einsum("bim,iom->bom", xf[..., : self.modes], self.weight)
        return torch.fft.irfft(out, n=x.size(-1))


class FNO(nn.Module):
    def __init__(self, c=4, modes=5):
        super().__init__()
        self.p = nn.Conv1d(1, c, 1)
        self.s = SpectralConv1d(c, modes)
        self.w = nn.Conv1d(c, c, 1)
        self.q = nn.Conv1d(c, 1, 1)

    def forward(self, a):
        h = self.p(a)
        return self.q(nn.functional.gelu(self.s(h) + self.w(h)))


torch.manual_seed(0)
fno = FNO()
opt = torch.optim.Adam(fno.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
ep = 0
while ep < 8:
    a = torch.randn(6, 1, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(fno(a), a.roll(2, -1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    ep += 1
print(f"RESULT ep={ep} loss={loss.item():.4f}")
