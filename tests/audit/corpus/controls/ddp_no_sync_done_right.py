import os
import tempfile
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank, world, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    torch.manual_seed(64)
    ddp = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    opt = torch.optim.AdamW(ddp.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    gen = torch.Generator().manual_seed(rank)
    for _ in range(4):
        window = [torch.randn(8, 6, generator=gen) for _ in range(3)]
        for left, x in zip((2, 1, 0), window, strict=True):
            with ddp.no_sync() if left else nullcontext():
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = nn.functional.mse_loss(ddp(x), x[:, :1])
                scaler.scale(loss / 3).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    sums = [torch.zeros(()) for _ in range(world)]
    dist.all_gather(sums, torch.stack([p.detach().sum() for p in ddp.parameters()]).sum())
    if rank == 0:
        print("RESULT " + " ".join(f"{s.item():.6f}" for s in sums), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(2, "file://" + os.path.join(tempfile.mkdtemp(), "d")), nprocs=2)
