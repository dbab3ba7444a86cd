import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


def chunks_of(x, y, k):
    return list(zip(x.chunk(k), y.chunk(k)))


def fit(rank, world, rendezvous, k=3, rounds=5):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)
    torch.manual_seed(7)
    encoder = nn.Sequential(nn.Linear(9, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 4))
    ddp = DDP(encoder)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    sgd = optim.SGD(
        [{"params": encoder[0].parameters(), "lr": 0.05}, {"params": [*encoder[2].parameters(), *encoder[3].parameters()]}],
        lr=0.2,
        nesterov=True,
        momentum=0.9,
    )
    g = torch.Generator().manual_seed(rank + 1)
    while rounds:
        x = torch.randn(24, 9, generator=g)
        y = x[:, :4].argmax(1)
        parts = chunks_of(x, y, k)
        for j, (xb, yb) in enumerate(parts):
            last = j == k - 1
            with contextlib.nullcontext() if last else ddp.no_sync():
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(ddp(xb), yb, label_smoothing=0.1) / k
                if not last:
                    scaler.scale(loss).backward()
            if last:
                scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()
        sgd.zero_grad()
        rounds -= 1
    norm = torch.stack([p.detach().double().norm() for p in encoder.parameters()]).norm()
    box = [torch.zeros_like(norm) for _ in range(world)]
    dist.all_gather(box, norm)
    if rank == 0:
        print("RESULT weight_norm " + " ".join(f"{v.item():.6f}" for v in box), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(fit, args=(2, "file://" + os.path.join(tempfile.mkdtemp(), "r")), nprocs=2)
