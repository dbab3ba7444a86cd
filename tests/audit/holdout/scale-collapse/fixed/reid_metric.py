import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, cin, out=8):
        super().__init__()
        self.c1 = nn.Conv2d(cin, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.fc = nn.Linear(8, out)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.fc(x.mean((2, 3)))


class BatchHard:
    def __init__(self, margin):
        self.margin = margin

    def distances(self, e):
        diff = e[:, None, :] - e[None, :, :]
        return diff.pow(2).sum(-1).clamp_min(1e-12).sqrt()

    def __call__(self, e, pid):
        d = self.distances(e)
        same = pid[:, None] == pid[None, :]
        far = (d * same).max(1).values
        near = (d + 1e3 * same).min(1).values
        return F.relu(far - near + self.margin).mean()


class PKSampler:
    def __init__(self, people, per_person, total, seed):
        self.p, self.k, self.total = people, per_person, total
        self.rng = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(total, 2, 6, 6, generator=self.rng)

    def __iter__(self):
        while True:
            who = torch.randperm(self.total, generator=self.rng)[: self.p].repeat_interleave(self.k)
            yield self.proto[who] + 0.4 * torch.randn(len(who), 2, 6, 6, generator=self.rng), who


def rank1(model, sampler):
    model.eval()
    x, who = next(iter(sampler))
    with torch.no_grad():
        e = model(x)
    d = torch.cdist(e, e) + 1e3 * torch.eye(len(e))
    model.train()
    return (who[d.argmin(1)] == who).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(5)
    model = Embedder(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device="cpu", init_scale=2.0**14)
    criterion = BatchHard(0.5)
    applied = 0
    attempts = 32
    for i, (x, who) in zip(range(attempts), PKSampler(4, 3, 10, seed=2)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            emb = model(x)
        loss = criterion(emb.float(), who)
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        applied += scaler.get_scale() >= before
        if i % 8 == 0:
            print(f"iter {i:3d} triplet {loss.item():.4f}")
    r1 = rank1(model, PKSampler(4, 3, 10, seed=3))
    print(f"RESULT attempts={attempts} applied={applied} rank1={r1:.3f} scale={scaler.get_scale():.3e}")
