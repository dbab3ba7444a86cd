import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(4)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 12, 3, padding=1)
        for p in self.parameters():
            p.requires_grad_(False)
            if p.ndim > 1:
                p.mul_(8.0)

    def forward(self, img):
        x = F.relu(self.a(img))
        y = F.relu(self.b(x))
        return x, y


class Stylizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1)
        )

    def forward(self, img):
        return img + self.net(img)


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    return torch.bmm(f / (c * h * w), f.transpose(1, 2))


class StyleLoss(nn.Module):
    def __init__(self, style, extractor, w_style=0.05):
        super().__init__()
        self.extractor = extractor
        self.w = w_style
        with torch.no_grad():
            self.targets = [gram(f) for f in extractor(style)]

    def forward(self, out, content):
        feats = self.extractor(out)
        s = sum(F.mse_loss(gram(f).float(), t.expand(len(f), -1, -1)) for f, t in zip(feats, self.targets))
        return F.mse_loss(feats[0].float(), content.float()) + self.w * s


def photos(n, bs=2):
    g = torch.Generator().manual_seed(31)
    for _ in range(n):
        yield torch.rand(bs, 3, 12, 12, generator=g) * 4 - 1


def main(steps=12):
    extractor = Features()
    lossf = StyleLoss(torch.rand(1, 3, 12, 12) * 4 - 1, extractor)
    net = Stylizer()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    good, values = 0, []
    for img in photos(steps):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            content = extractor(img)[0]
            out = net(img)
            loss = lossf(out, content)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() >= scale:
            good += 1
            values.append(loss.item())
    last = values[-1] if values else float("nan")
    print(f"RESULT updates={good}/{steps} last_loss={last:.4f} scale={scaler.get_scale():g}")


main()
