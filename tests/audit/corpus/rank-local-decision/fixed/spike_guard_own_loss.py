import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Meter:
    def __init__(self, beta=0.9):
        self.beta, self.value = beta, None

    def push(self, v):
        self.value = v if self.value is None else self.beta * self.value + (1 - self.beta) * v

    def is_spike(self, v, factor=4.0):
        return self.value is not None and v > factor * self.value


def stream(rank, n):
    g = torch.Generator().manual_seed(1000 + rank)
    for i in range(n):
        x = torch.randn(16, 6, generator=g)
        y = x @ torch.arange(6.0).unsqueeze(1) * 0.1
        if rank == 1 and i in (5, 9):
            y = y + 12.0
        yield x, y


def main(rank, world, init):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Linear(16, 1)))
    optim = torch.optim.AdamW(model.parameters(), lr=5e-3)
    meter = Meter()
    steps = 0
    for x, y in stream(rank, 14):
        optim.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (model(x) - y).float().square().mean()
        loss.backward()
        shared = loss.detach().clone()
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        current = shared.item()
        if meter.is_spike(current):
            continue
        meter.push(current)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        steps += 1
    report = torch.tensor([float(steps), model.module[0].weight.detach().sum().item()])
    all_reports = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(all_reports, report)
    if rank == 0:
        print("RESULT " + " ".join(f"steps={int(r[0])} checksum={r[1]:.5f}" for r in all_reports), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(2, "file://" + os.path.join(tempfile.mkdtemp(), "i")), nprocs=2)
