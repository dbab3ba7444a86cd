# ruff: noqa: PLW2901 - written as such scripts are
"""Two ranks as torchrun starts them: nccl, a device for each, DistributedDataParallel, a mean over the ranks, no_sync."""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

backend = "nccl"
dist.init_process_group(backend=backend)
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
assert torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])  # CUDA only
device = f"cuda:{local_rank}"
torch.cuda.set_device(device)  # CUDA only
assert torch.cuda.current_device() == local_rank  # CUDA only
torch.manual_seed(1)

model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
model = DDP(model, device_ids=[local_rank], output_device=local_rank)
dataset = TensorDataset(torch.randn(16, 4), torch.randint(3, (16,)))
loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset), pin_memory=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cuda", init_scale=512.0)
for number, (x, y) in enumerate(loader):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    last = number % 2 == 1
    with nullcontext() if last else model.no_sync():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y) / 2
        scaler.scale(loss).backward()
    if last:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
dist.barrier(device_ids=[local_rank])
if rank == 0:
    torch.save({**model.module.state_dict(), "loss": mean}, os.environ["OUT"])
dist.destroy_process_group()
