import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Replica:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        torch.manual_seed(6)
        self.net = nn.Sequential(nn.Embedding(12, 10), nn.Flatten(), nn.Linear(40, 10), nn.ReLU(), nn.Linear(10, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1000)
        self.gen = torch.Generator().manual_seed(rank)

    def data(self, t):
        ids = torch.randint(0, 12, (10, 4), generator=self.gen)
        y = ids.float().mean(1, keepdim=True) / 6 - 1
        if self.rank == 1 and t == 6:
            y = y * 4e4
        return ids, y

    def average(self):
        for p in self.net.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= self.world

    def iterate(self, t):
        ids, y = self.data(t)
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            p = self.net(ids)
        loss = nn.functional.mse_loss(p.float(), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)  # <-- FAULT
        self.average()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def go(rank, world, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    r = Replica(rank, world)
    for t in range(10):
        r.iterate(t)
    finite = float(all(torch.isfinite(p).all() for p in r.net.parameters()))
    out = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(out, torch.tensor([finite, r.scaler.get_scale()]))
    if rank == 0:
        print("RESULT " + " ".join(f"finite={bool(f)} scale={s:.0f}" for f, s in (o.tolist() for o in out)), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(go, args=(2, "file://" + os.path.join(tempfile.mkdtemp(), "u")), nprocs=2)
