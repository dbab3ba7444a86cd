import torch
from torch import nn

MICRO = 500


def make_buckets(module):
    return {n: torch.zeros_like(p, dtype=torch.bfloat16) for n, p in module.named_parameters()}  # <-- FAULT


def pour(module, buckets):
    for n, p in module.named_parameters():
        buckets[n] += p.grad.to(buckets[n].dtype)
        p.grad = None


def drain(module, buckets, k):
    for n, p in module.named_parameters():
        p.grad = buckets[n].to(p.dtype) / k
        buckets[n].zero_()


torch.manual_seed(0)
reg = nn.Linear(4, 1)
nn.init.zeros_(reg.weight)
opt = torch.optim.SGD(reg.parameters(), lr=0.1)
buckets = make_buckets(reg)
for big_step in range(2):
    for _ in range(MICRO):
        x = torch.rand(8, 4) + 0.5
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = reg(x)
        ((out.float() - 3.0) ** 2).mean().backward()
        pour(reg, buckets)
    drain(reg, buckets, MICRO)
    opt.step()
    opt.zero_grad()
print("RESULT w=" + ",".join(f"{v:.5f}" for v in reg.weight.detach().flatten().tolist()))
