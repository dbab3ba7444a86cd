import argparse

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        att = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1)
        x = x + self.proj(att.to(v.dtype) @ v)
        return x + self.mlp(self.n2(x))


class MicroViT(nn.Module):
    def __init__(self, d=16, classes=4):
        super().__init__()
        self.patch = nn.Linear(9, d)
        self.pos = nn.Parameter(0.02 * torch.randn(4, d))
        self.block = Block(d)
        self.fc = nn.Linear(d, classes)

    def forward(self, img):
        p = img.unfold(1, 3, 3).unfold(2, 3, 3).reshape(img.size(0), 4, 9)
        return self.fc(self.block(self.patch(p) + self.pos).mean(1))


def get_args():
    p = argparse.ArgumentParser("micro vit")
    p.add_argument("--accum_iter", default=4, type=int)
    p.add_argument("--batch_size", default=8, type=int)
    p.add_argument("--epochs", default=2, type=int)
    p.add_argument("--clip_grad", default=5.0, type=float)
    p.add_argument("--lr", default=0.1, type=float)
    return p.parse_args()


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

    def __call__(self, loss, optimizer, parameters, clip_grad, update_grad=True):
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(optimizer)  # <-- FAULT
        norm = nn.utils.clip_grad_norm_(parameters, clip_grad)
        if update_grad:
            self._scaler.step(optimizer)
        self._scaler.update()
        return norm

    def state_dict(self):
        return self._scaler.state_dict()


def train_one_epoch(model, data, optimizer, loss_scaler, args, norms):
    model.train()
    optimizer.zero_grad()
    for it, (samples, targets) in enumerate(data):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(samples), targets)
        last = (it + 1) % args.accum_iter == 0
        norm = loss_scaler(loss / args.accum_iter, optimizer, list(model.parameters()), args.clip_grad, update_grad=last)
        if last:
            norms.append(float(norm))
            optimizer.zero_grad()
    return loss.item()


def main(args):
    torch.manual_seed(0)
    # classes arrive sorted, one per micro-batch
    imgs = torch.randn(64, 6, 6)
    labels = torch.arange(4).repeat_interleave(8).repeat(2)
    imgs[:, 0, :4] += 3 * nn.functional.one_hot(labels, 4)
    data = list(zip(imgs.split(args.batch_size), labels.split(args.batch_size), strict=True))
    model = MicroViT()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scaler, norms = NativeScaler(), []
    for _ in range(args.epochs):
        train_one_epoch(model, data, optimizer, scaler, args, norms)
    print("fc bias", model.fc.bias.tolist())
    with torch.no_grad():
        full = nn.functional.cross_entropy(model(imgs), labels).item()
        acc = (model(imgs).argmax(1) == labels).float().mean().item()
    print(f"RESULT updates={len(norms)} norms={','.join(f'{n:.4f}' for n in norms)} loss={full:.4f} acc={acc:.3f}")


if __name__ == "__main__":
    main(get_args())
