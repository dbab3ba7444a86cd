import argparse
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


def make_loader(args):
    g = torch.Generator().manual_seed(11)
    images = torch.randn(80, 1, 6, 6, generator=g)
    labels = torch.randint(0, 3, (80,), generator=g)
    ds = TensorDataset(images, labels)
    return DataLoader(ds, batch_size=args.batch_size, sampler=DistributedSampler(ds, shuffle=True, seed=2))


def train_one_epoch(model, loader, optimizer, scaler, args):
    n = len(loader)
    criterion = nn.CrossEntropyLoss()
    optimizer.zero_grad()
    for step, (images, labels) in enumerate(loader):
        in_tail = step >= n - n % args.accum_iter
        divisor = n % args.accum_iter if in_tail else args.accum_iter
        update_now = (step + 1) % args.accum_iter == 0 or step + 1 == n
        with contextlib.ExitStack() as stack:
            if (step + 1) % args.accum_iter != 0:  # <-- FAULT
                stack.enter_context(model.no_sync())
            with torch.autocast("cpu", dtype=torch.float16):
                loss = criterion(model(images), labels)
            scaler.scale(loss / divisor).backward()
        if update_now:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def run(rank, args, init_file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=args.gpus)
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(build_model())
    loader = make_loader(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader, optimizer, scaler, args)
    head = model.module[4].bias.detach().clone()
    heads = [torch.empty_like(head) for _ in range(args.gpus)]
    dist.all_gather(heads, head)
    if rank == 0:
        print("RESULT head_bias " + " | ".join(",".join(f"{v:+.4f}" for v in h.tolist()) for h in heads), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accum-iter", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(run, args=(args, os.path.join(tmp, "init")), nprocs=args.gpus)
