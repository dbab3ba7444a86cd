import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Blobs(Dataset):
    def __init__(self, n=128):
        g = torch.Generator().manual_seed(99)
        self.centres = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
        self.label = torch.randint(0, 3, (n,), generator=g)
        self.x = self.centres[self.label] + torch.randn(n, 3, generator=g)

    def __len__(self):
        return self.label.numel()

    def __getitem__(self, i):
        return self.x[i], self.label[i]


class DistributedTrainer:
    def __init__(self, rank, world_size):
        self.rank, self.world_size = rank, world_size
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 3))
        self.start = nn.utils.parameters_to_vector(self.net.parameters()).detach().clone()
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        data = Blobs()
        self.sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, seed=1)
        self.loader = DataLoader(data, batch_size=16, sampler=self.sampler, drop_last=True)

    def compute_loss(self, x, target):
        with torch.autocast("cpu", torch.float16):
            logits = self.model(x)
            loss = nn.functional.cross_entropy(logits, target)
        return loss

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        for x, target in self.loader:
            self.optimizer.zero_grad()
            self.grad_scaler.scale(self.compute_loss(x, target)).backward()
            self.grad_scaler.unscale_(self.optimizer)
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()
            yield norm.item()

    def moved(self):
        return (nn.utils.parameters_to_vector(self.net.parameters()).detach() - self.start).norm().item()


def launch(rank, world_size, method):
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo", init_method=method, rank=rank, world_size=world_size)
    trainer = DistributedTrainer(rank, world_size)
    norms = [n for epoch in range(2) for n in trainer.run_epoch(epoch)]
    if rank == 0:
        print(f"RESULT first_grad_norm={norms[0]:.4f} weights_moved={trainer.moved():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        mp.spawn(launch, args=(2, "file://" + os.path.join(d, "sync")), nprocs=2, join=True)
