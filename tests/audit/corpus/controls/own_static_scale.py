import torch
from torch import nn

SCALE = 4096.0


def main():
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(7, 16), nn.SiLU(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    skipped = 0
    for _ in range(25):
        x = torch.randn(12, 7)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x), x[:, :1].sin())
        (SCALE * loss).backward()
        grads = [p.grad for p in net.parameters()]
        torch._foreach_div_(grads, SCALE)
        if not torch.stack([g.isfinite().all() for g in grads]).all():
            skipped += 1
            continue
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
    print(f"RESULT loss={loss.item():.4f} skipped={skipped}")


main()
