# group-relative policy gradient on a toy bandit
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(77)
K, G = 6, 5
policy = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, K))
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def rewards(ctx, act):
    return (act == ctx.argmax(-1, keepdim=True)).to(torch.float16)


def advantages(r):
    r = r - r.mean(1, keepdim=True)
    return r / (r.std(1, keepdim=True) + 1e-8)  # <-- FAULT


skips = 0
for it in range(25):
    ctx = torch.randn(12, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = policy(ctx)
    dist = Categorical(logits=logits.float())
    act = dist.sample((G,)).t()
    adv = advantages(rewards(ctx, act))
    logp = dist.log_prob(act.t()).t()
    loss = -(adv.detach() * logp).mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    skips += any(not p.grad.isfinite().all() for p in policy.parameters())
    scaler.step(opt)
    scaler.update()
print(f"RESULT iterations=25 skips={skips} scale={scaler.get_scale():g}")
