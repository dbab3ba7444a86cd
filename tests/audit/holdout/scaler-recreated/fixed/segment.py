import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser("tiny segmentation")
    p.add_argument("--epochs", default=4, type=int)
    p.add_argument("--batch-size", default=4, type=int)
    p.add_argument("--lr", default=0.05, type=float)
    p.add_argument("--momentum", default=0.9, type=float)
    p.add_argument("--init-scale", default=2.0**20, type=float)
    p.add_argument("--seed", default=0, type=int)
    return p.parse_args()


class UNetish(nn.Module):
    def __init__(self, c=6):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, c, 3, 2, 1), nn.GroupNorm(2, c), nn.ReLU())
        self.mid = nn.Conv2d(c, c, 3, 1, 1)
        self.up = nn.ConvTranspose2d(c, c, 2, 2)
        self.head = nn.Conv2d(c + 1, 1, 1)

    def forward(self, x):
        h = self.down(x)
        h = torch.relu(self.mid(h))
        return self.head(torch.cat([self.up(h), x.to(h.dtype)], 1))


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 1, 8, 8, generator=g)
    m = nn.functional.avg_pool2d(x, 3, 1, 1)
    return TensorDataset(x + m, (m > 0).float())


def soft_dice(logits, target):
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()


def train_one_epoch(model, loader, optimizer, scaler, epoch):
    model.train()
    bce = nn.BCEWithLogitsLoss()
    lost = 0
    for image, mask in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(image)
        loss = 8 * bce(logits.float(), mask) + soft_dice(logits.float(), mask)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        was = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < was:
            lost += 1
    print(f"[{epoch}] loss {loss.item():.4f} lost {lost}/{len(loader)} scale {scaler.get_scale():.0f}")
    return lost


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = total = 0
    for image, mask in loader:
        hit += ((model(image) > 0) == mask.bool()).sum().item()
        total += mask.numel()
    return hit / total


def main(args):
    torch.manual_seed(args.seed)
    train = DataLoader(blobs(24, 1), args.batch_size, shuffle=True, generator=torch.Generator().manual_seed(args.seed))
    val = DataLoader(blobs(8, 2), 8)
    model = UNetish()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale)
    lost = []
    for epoch in range(args.epochs):
        lost.append(train_one_epoch(model, train, optimizer, scaler, epoch))
    acc = evaluate(model, val)
    print(f"RESULT lost_per_epoch={lost} pixel_acc={acc:.4f}")


if __name__ == "__main__":
    main(get_args())
