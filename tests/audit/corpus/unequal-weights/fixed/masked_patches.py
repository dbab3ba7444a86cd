# masked patch reconstruction, MAE style
import torch
from torch import nn


class PatchMixer(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.inp = nn.Linear(6, width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.out = nn.Linear(width, 6)

    def forward(self, patches, mask):
        h = self.inp(patches * ~mask[..., None])
        h = h + self.attn(h, h, h, need_weights=False)[0]
        return self.out(h)


def sample(ratio, g):
    base = (torch.randn(4, 1, 6, generator=g) + torch.randn(6, generator=g) * 2).expand(4, 10, 6)
    patches = base + 0.1 * torch.randn(4, 10, 6, generator=g)
    mask = torch.rand(4, 10, generator=g) < ratio
    mask[0, 0] = True
    return patches, mask


def micro_loss(net, patches, mask, denom):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rec = net(patches, mask)
    sq = (rec.float() - patches).square().mean(-1)
    return (sq * mask).sum() / denom


def main(ratios=(0.05, 0.3, 0.9, 0.6), updates=6):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(9)
    net = PatchMixer()
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    for _ in range(updates):
        window = [sample(r, g) for r in ratios]
        opt.zero_grad()
        for patches, mask in window:
            micro_loss(net, patches, mask, sum(m.sum() for _, m in window)).backward()
        opt.step()
    masked = [int(m.sum()) for _, m in window]
    print(f"RESULT masked_per_microbatch={masked} out_bias={net.out.bias.detach().norm():.6f}")


if __name__ == "__main__":
    main()
