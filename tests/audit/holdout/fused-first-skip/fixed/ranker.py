import argparse

import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, n_feat, hidden):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(n_feat, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, docs):
        return self.f(docs).squeeze(-1)


def listnet(scores, rel):
    return -(rel.softmax(-1) * scores.float().log_softmax(-1)).sum(-1).mean()


def queries(n, bs, docs, feat, seed):
    g = torch.Generator().manual_seed(seed)
    taste = torch.randn(feat, generator=g)
    for _ in range(n):
        x = torch.randn(bs, docs, feat, generator=g)
        yield x, 2 * (x @ taste)


def make_optimizer(model, opts):
    return torch.optim.SGD(model.parameters(), lr=opts.lr, momentum=opts.momentum, foreach=True)


def train(opts):
    torch.manual_seed(opts.seed)
    model = Ranker(opts.feat, opts.hidden)
    optimizer = make_optimizer(model, opts)
    scaler = torch.amp.GradScaler("cpu", init_scale=opts.init_scale)
    done, losses = 0, []
    for docs, rel in queries(opts.steps, 8, 6, opts.feat, opts.seed):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = listnet(model(docs), rel)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        at = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= at:
            done += 1
            losses.append(loss.item())
    return model, done, losses


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--feat", type=int, default=10)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--seed", type=int, default=6)
    ap.add_argument("--init-scale", type=float, default=2.0**22)
    model, done, losses = train(ap.parse_args())
    big = max(p.abs().max().item() for p in model.parameters())
    print(f"RESULT done={done} first={losses[0]:.4f} last={losses[-1]:.4f} largest_weight={big:.4g}")
