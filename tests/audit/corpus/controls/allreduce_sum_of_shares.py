import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, world, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    torch.manual_seed(65)
    net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    gen = torch.Generator().manual_seed(10 * rank + 3)
    for _ in range(8):
        n = 4 + int(torch.randint(0, 9, (1,), generator=gen))
        x = torch.randn(n, 5, generator=gen)
        count = torch.tensor(float(n))
        dist.all_reduce(count)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
        loss = (out.float() - x.norm(dim=1, keepdim=True)).square().sum() / count
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
    dist.all_reduce(loss)
    if rank == 0:
        print(f"RESULT global_loss={loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(2, "file://" + os.path.join(tempfile.mkdtemp(), "a")), nprocs=2)
