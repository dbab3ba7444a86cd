import torch


@torch.no_grad()
def pull_to(local, anchor, mu):
    for p, q in zip(local.parameters(), anchor.parameters()):
        p.grad.add_(p - q, alpha=mu)  # <-- FAULT


@torch.no_grad()
def distance(a, b):
    return sum((p - q).pow(2).sum() for p, q in zip(a.parameters(), b.parameters())).sqrt().item()


@torch.no_grad()
def average_(server, locals_):
    for ps in zip(server.parameters(), *(m.parameters() for m in locals_)):
        ps[0].copy_(torch.stack(ps[1:]).mean(0))
