import argparse
import itertools

import torch

from depth_head_lib import DepthNet, silog


def rooms(bs, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        img = torch.rand(bs, 3, 6, 6, generator=g)
        yield img, 1 + 5 * img.mean(1)


def fit(opts):
    torch.manual_seed(opts.seed)
    net = DepthNet()
    optim = torch.optim.AdamW(net.parameters(), lr=opts.lr)
    amp = torch.amp.GradScaler("cpu", enabled=opts.amp, init_scale=512.0)
    n, log = 0, []
    for img, gt in itertools.islice(rooms(opts.bs, opts.seed), opts.iters):
        with torch.autocast("cpu", dtype=torch.float16, enabled=opts.amp):
            depth = net(img)
        loss = silog(depth.float(), gt)
        optim.zero_grad()
        amp.scale(loss).backward()
        s = amp.get_scale()
        amp.step(optim)
        amp.update()
        n += amp.get_scale() >= s
        log.append(loss.item())
    return n, log


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=15)
    ap.add_argument("--bs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--seed", type=int, default=19)
    ap.add_argument("--no-amp", dest="amp", action="store_false")
    n, log = fit(ap.parse_args())
    print(f"RESULT updates={n} first={log[0]:.4f} last={log[-1]:.4f}")
