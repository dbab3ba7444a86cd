import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.amp import GradScaler

WORLD = 2


class ShardedAdam:
    def __init__(self, model, lr):
        self.params = list(model.parameters())
        self.owner = {p: i % WORLD for i, p in enumerate(self.params)}
        self.mine = [p for p in self.params if self.owner[p] == dist.get_rank()]
        self.inner = torch.optim.Adam(self.mine, lr=lr)
        self.applied = 0
        self.inner.register_step_post_hook(self._count)

    def _count(self, *_):
        self.applied += 1

    def reduce(self):
        for p in self.params:
            dist.all_reduce(p.grad)
            p.grad.div_(WORLD)

    def gather(self):
        for p in self.params:
            dist.broadcast(p.data, src=self.owner[p])


def found_inf(scaler, opt):
    return next(iter(scaler._per_optimizer_states[id(opt)]["found_inf_per_device"].values()))


def main(rank, rdzv):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rdzv, rank=rank, world_size=WORLD)
    torch.manual_seed(2)
    backbone = nn.Sequential(nn.Linear(6, 10), nn.ReLU()).requires_grad_(False)
    model = nn.ModuleDict({"depth": nn.Linear(10, 1, bias=False), "normals": nn.Linear(10, 3, bias=False)})
    sharded = ShardedAdam(model, lr=1e-2)
    scaler = GradScaler("cpu", init_scale=2.0**12, growth_interval=500)
    gen = torch.Generator().manual_seed(rank + 10)
    for i in range(15):
        x = torch.randn(8, 6, generator=gen)
        depth, normals = x.sum(1, keepdim=True), x[:, :3].sign()
        if i == 7 and rank == 0:
            depth[3] = 1e5
        model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            h = backbone(x)
            a, b = model["depth"](h), model["normals"](h)
        loss = nn.functional.mse_loss(a.float(), depth) + nn.functional.smooth_l1_loss(b.float(), normals)
        scaler.scale(loss).backward()
        sharded.reduce()
        scaler.unscale_(sharded.inner)
        dist.all_reduce(found_inf(scaler, sharded.inner), op=dist.ReduceOp.MAX)
        scaler.step(sharded.inner)
        scaler.update()
        sharded.gather()
    counts = [torch.zeros(2) for _ in range(WORLD)]
    dist.all_gather(counts, torch.tensor([float(sharded.applied), scaler.get_scale()]))
    if rank == 0:
        print("RESULT " + " ".join(f"updates={int(c[0])} scale={int(c[1])}" for c in counts), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=("file://" + os.path.join(tempfile.mkdtemp(), "z"),), nprocs=WORLD)
