# ruff: noqa: PLW2901, PLR0402 - written as such scripts are
"""Images in the manner of pytorch/examples: argparse, --gpu, meters, a checkpoint of the best epoch that is loaded again."""

import argparse
import os
import shutil
import tempfile

import torch
import torch.backends.cudnn as cudnn  # CUDA only
import torch.nn as nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--gpu", default=0, type=int)
parser.add_argument("--batch-size", default=4, type=int)


def accuracy(output, target):
    with torch.no_grad():
        _, pred = output.topk(1, 1, True, True)
        return pred.t().eq(target.view(1, -1)).float().sum().mul_(100.0 / target.size(0)).cpu().item()


def main():
    args = parser.parse_args([])
    torch.manual_seed(0)
    torch.cuda.manual_seed(7)  # CUDA only
    cudnn.benchmark = True  # CUDA only
    cudnn.deterministic = True  # CUDA only
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    )
    if torch.cuda.is_available():
        torch.cuda.set_device(args.gpu)  # CUDA only
        model = model.cuda(args.gpu)
        device = torch.device(f"cuda:{args.gpu}")
    else:
        raise SystemExit("using CPU, this will be slow")
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    data = TensorDataset(torch.randn(12, 3, 6, 6), torch.randint(5, (12,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=0, pin_memory=True, sampler=None)
    best, folder = -1.0, tempfile.mkdtemp()
    checkpoint = os.path.join(folder, "checkpoint.pth.tar")
    for epoch in range(args.epochs):
        model.train()
        hits = 0.0
        for images, target in loader:
            images = images.cuda(args.gpu, non_blocking=True)
            target = target.cuda(args.gpu, non_blocking=True)
            with torch.autocast("cuda"):
                output = model(images)
                loss = criterion(output, target)
            hits += accuracy(output, target)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        scheduler.step()
        torch.save({"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
        if hits > best:
            best = hits
            shutil.copyfile(checkpoint, os.path.join(folder, "model_best.pth.tar"))
    state = torch.load(os.path.join(folder, "model_best.pth.tar"), map_location=f"cuda:{args.gpu}")
    model.load_state_dict(state["state_dict"])
    shutil.rmtree(folder)
    torch.save(model.state_dict(), os.environ["OUT"])


if __name__ == "__main__":
    main()
