import torch
from torch import nn


class MultiClassDice(nn.Module):
    def __init__(self, classes, eps=1e-8):
        super().__init__()
        self.classes = classes
        self.eps = eps

    def forward(self, logits, target, valid):
        logits = logits.float()
        prob = logits.softmax(1).to(logits.dtype)
        onehot = nn.functional.one_hot(target, self.classes).permute(0, 3, 1, 2).to(logits.dtype)
        valid = valid.to(logits.dtype)
        prob, onehot = prob * valid, onehot * valid
        inter = (prob * onehot).sum((2, 3))
        size = prob.sum((2, 3)) + onehot.sum((2, 3))
        score = 2 * inter / (size + self.eps)
        return 1 - score.float().mean()


class Tile:
    def __init__(self, image, label, valid):
        self.image, self.label, self.valid = image, label, valid


class TileStream:
    def __init__(self, bs, size=8, seed=3, empty_every=4):
        self.bs, self.size, self.empty_every = bs, size, empty_every
        self.g = torch.Generator().manual_seed(seed)
        self.i = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        image = torch.randn(self.bs, 2, self.size, self.size, generator=self.g)
        label = image.argmax(1) + (image.amax(1) < 0.0).long()
        valid = torch.ones(self.bs, 1, self.size, self.size)
        if self.i % self.empty_every == 0:
            valid[0] = 0  # cloud cover
        return Tile(image, label, valid)


def model_fn(c=6):
    return nn.Sequential(nn.Conv2d(2, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 3, 1))


def main(steps=24):
    torch.manual_seed(3)
    net = model_fn()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    dice, stream = MultiClassDice(3), TileStream(bs=2)
    applied, nan = 0, 0
    for _ in range(steps):
        t = next(stream)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = dice(net(t.image), t.label, t.valid)
        nan += int(loss.isnan())
        scaler.scale(loss).backward()
        s = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        applied += int(scaler.get_scale() >= s)
    print(f"RESULT steps={steps} applied={applied} nan_losses={nan} scale={scaler.get_scale():g}")


main()
