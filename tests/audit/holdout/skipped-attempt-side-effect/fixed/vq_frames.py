import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantizer(nn.Module):
    def __init__(self, k, dim, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(k, dim) * 0.5)
        self.register_buffer("usage", torch.zeros(k))

    def forward(self, z):
        flat = z.float().reshape(-1, z.shape[-1])
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.t() + self.codebook.pow(2).sum(1)
        idx = d.argmin(1)
        if self.training and bool(torch.isfinite(flat).all()):
            self._refresh(flat.detach(), idx)
        q = self.codebook[idx].view_as(z)
        commit = F.mse_loss(z.float(), q)
        return z + (q - z).detach(), commit, idx

    @torch.no_grad()
    def _refresh(self, flat, idx):
        for j in idx.unique().tolist():
            members = flat[idx == j]
            self.codebook[j] = self.codebook[j] * self.decay + members.mean(0) * (1 - self.decay)
            self.usage[j] += len(members)


class VQ(nn.Module):
    def __init__(self, n_in, hidden, dim, k):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.vq = Quantizer(k, dim)
        self.dec = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, n_in))

    def forward(self, x):
        z = self.enc(x)
        with torch.autocast("cpu", enabled=False):
            q, commit, idx = self.vq(z.float())
        return self.dec(q), commit, idx


def frames(n, size, gen, glitch):
    for i in range(n):
        x = torch.randn(size, 16, generator=gen)
        x = x + 0.6 * x.roll(1, 1)
        if i == glitch:
            x[5, 3] = 3.0e6
        yield x.clamp(-4e6, 4e6)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=18)
    p.add_argument("--bs", type=int, default=32)
    p.add_argument("--codes", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--beta", type=float, default=0.25)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(11)
    model = VQ(16, 24, 6, args.codes)
    optim = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    gen = torch.Generator().manual_seed(5)
    moved = 0
    for step, x in enumerate(frames(args.steps, args.bs, gen, glitch=7)):
        with torch.autocast("cpu", dtype=torch.float16):
            rec, commit, _ = model(x)
            loss = F.mse_loss(rec.float(), x) + args.beta * commit
        optim.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optim)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        old = scaler.get_scale()
        scaler.step(optim)
        scaler.update()
        moved += int(scaler.get_scale() >= old)
        if step % 6 == 0:
            print(f"{step:4d}  loss {loss.item():.4f}  scale {scaler.get_scale():g}")
    model.eval()
    with torch.no_grad():
        rec, _, idx = model(torch.randn(16, 16, generator=gen))
    bad = int((~torch.isfinite(model.vq.codebook)).any(1).sum())
    print(f"RESULT steps={args.steps} moved={moved} bad_codes={bad} eval_finite={bool(torch.isfinite(rec).all())}")


if __name__ == "__main__":
    main()
