import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn

N_RANKS = 2
ACCUM = 4


def sync_grads(params):
    live = [p for p in params if p.grad is not None]
    bucket = torch.cat([p.grad.reshape(-1) for p in live])
    dist.all_reduce(bucket)
    bucket /= dist.get_world_size()
    at = 0
    for p in live:
        p.grad.copy_(bucket[at : at + p.numel()].view_as(p))
        at += p.numel()


def batches(rank, n):
    g = torch.Generator().manual_seed(rank)
    for _ in range(n):
        users = torch.randint(0, 20, (16,), generator=g)
        items = torch.randint(0, 30, (16,), generator=g)
        yield users, items, ((users + items) % 5).float()


class MF(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.u = nn.Embedding(20, dim)
        self.v = nn.Embedding(30, dim)
        self.mu = nn.Parameter(torch.zeros(()))

    def forward(self, u, i):
        return (self.u(u) * self.v(i)).sum(-1) + self.mu


def work(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=N_RANKS)
    torch.manual_seed(42)
    model = MF()
    params = list(model.parameters())
    opt = torch.optim.Adagrad(params, lr=0.1)
    n = 0
    for u, i, r in batches(rank, 4 * ACCUM):
        n += 1
        loss = (model(u, i) - r).pow(2).mean() / ACCUM
        loss.backward()
        if n % ACCUM == 0:
            sync_grads(params)
            opt.step()
            opt.zero_grad()
    mine = torch.tensor([model.mu.item(), model.u.weight.norm().item()])
    everyone = [torch.zeros(2) for _ in range(N_RANKS)]
    dist.all_gather(everyone, mine)
    if rank == 0:
        print("RESULT " + " ".join(f"rank{k}: mu={t[0]:.5f} |U|={t[1]:.5f}" for k, t in enumerate(everyone)), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    spawn(work, args=(f"file://{tempfile.mkdtemp()}{os.sep}s",), nprocs=N_RANKS)
