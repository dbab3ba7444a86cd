import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

LOSS_SCALE = 2.0**13
N = 2


def grads_of(model):
    return [p.grad for p in model.parameters()]


def all_finite(tensors):
    return all(bool(torch.isfinite(t).all()) for t in tensors)


def reduce_mean(tensors):
    for t in tensors:
        dist.all_reduce(t)
        t.div_(N)


def batch(g, rank, i):
    x = torch.randn(12, 8, generator=g)
    t = x[:, :2].clone()
    if rank == 0 and i == 4:
        t[0] = 6e4
    return x, t


def run(rank, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=N)
    torch.manual_seed(21)
    model = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    g = torch.Generator().manual_seed(rank)
    done = 0
    for i in range(12):
        x, t = batch(g, rank, i)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = F.mse_loss(out.float(), t)
        model.zero_grad()
        (loss * LOSS_SCALE).backward()
        grads = grads_of(model)
        for gr in grads:
            gr.mul_(1.0 / LOSS_SCALE)
        ok = all_finite(grads)
        if not ok:
            for gr in grads:
                gr.zero_()
        reduce_mean(grads)
        verdict = torch.tensor(float(ok))
        dist.all_reduce(verdict, op=dist.ReduceOp.MIN)
        if verdict.item() == 1.0:
            opt.step()
            done += 1
    v = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
    vs = [torch.zeros_like(v) for _ in range(N)]
    dist.all_gather(vs, v)
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(N)]
    dist.all_gather(counts, torch.tensor([done]))
    if rank == 0:
        d = (vs[0] - vs[1]).norm().item()
        print(f"RESULT updates={','.join(str(c.item()) for c in counts)} distance_between_ranks={d:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, (os.path.join(tempfile.mkdtemp(), "store"),), N)
