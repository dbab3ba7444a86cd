import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 2
GLOBAL_BATCH = 32


def step(model, opt, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(x)
    loss = F.binary_cross_entropy_with_logits(pred.float().squeeze(1), y, reduction="sum")
    loss = loss / (GLOBAL_BATCH // WORLD)
    loss.backward()
    opt.step()
    for p in model.parameters():
        p.grad = None
    return loss.detach()


def proc(rank, rdv):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rdv, rank=rank, world_size=WORLD)
    gen = torch.Generator().manual_seed(17)
    net = torch.nn.Linear(12, 1)
    torch.nn.init.zeros_(net.weight)
    torch.nn.init.zeros_(net.bias)
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.4)
    local = GLOBAL_BATCH // WORLD
    for _ in range(10):
        x = torch.randn(GLOBAL_BATCH, 12, generator=gen)
        y = (x[:, 0] - x[:, 3] > 0).float()
        mine = slice(rank * local, (rank + 1) * local)
        loss = step(model, opt, x[mine], y[mine])
        dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    if rank == 0:
        w = net.weight.detach()[0]
        print(f"RESULT w0={w[0].item():.4f} w3={w[3].item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(proc, (f"file://{tempfile.mkdtemp()}/rdv",), WORLD)
    sys.exit(0)
