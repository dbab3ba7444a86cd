import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 8, 3, padding=1)
        self.pool = nn.AdaptiveMaxPool1d(1)
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        return self.fc(self.pool(torch.relu(self.conv(x))).flatten(1))


def worker(rank, world, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    torch.manual_seed(4)
    module = Net()
    model = nn.parallel.DistributedDataParallel(module)
    norms = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    data = torch.Generator().manual_seed(rank)
    it = iter(range(8))
    while next(it, None) is not None:
        x = torch.randn(8, 2, 12, generator=data)
        y = x.amax(dim=(1, 2)).unsqueeze(1)
        with torch.autocast("cpu", torch.bfloat16):
            out = model(x)
        loss = nn.functional.l1_loss(out.float(), y)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.stack([p.grad.norm() for p in module.parameters()]).norm().item())
        optimizer.step()
    if rank == 0:
        print(f"RESULT grad_norms={','.join(f'{n:.4f}' for n in norms[:4])}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, (2, "file://" + os.path.join(tempfile.mkdtemp(), "q")), 2)
