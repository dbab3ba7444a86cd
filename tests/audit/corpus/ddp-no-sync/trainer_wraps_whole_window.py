import os
import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from trainer_wraps_whole_window_lib import WindowTrainer, spread


@dataclass
class Config:
    world: int = 2
    microbatches: int = 3
    updates: int = 6
    lr: float = 0.02
    hidden: int = 12


def windows(cfg, rank):
    g = torch.Generator().manual_seed(100 + rank)
    for _ in range(cfg.updates):
        window = []
        for _ in range(cfg.microbatches):
            seq = torch.randn(4, 5, 3, generator=g)
            window.append((seq, seq.sum(dim=(1, 2)).unsqueeze(1)))
        yield window


class SeqRegressor(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(3, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])


def entry(rank, cfg, where):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + where, rank=rank, world_size=cfg.world)
    torch.manual_seed(3)
    trainer = WindowTrainer(SeqRegressor(cfg.hidden), lr=cfg.lr)
    for window in windows(cfg, rank):
        trainer.update(window)
    s = spread(trainer.net)
    if rank == 0:
        print(f"RESULT spread={s:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(entry, args=(Config(), os.path.join(tempfile.mkdtemp(), "store")), nprocs=Config.world)
