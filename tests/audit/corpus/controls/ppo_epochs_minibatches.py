import torch
from torch import nn

torch.manual_seed(48)
net = nn.Sequential(nn.Linear(4, 20), nn.Tanh(), nn.Linear(20, 3))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-5)


def split(out):
    return torch.log_softmax(out[:, :2].float(), 1), out[:, 2].float()


for it in range(4):
    obs = torch.randn(32, 4)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        logp, val = split(net(obs))
    act = torch.multinomial(logp.exp(), 1).squeeze(1)
    ret = (act == (obs[:, 1] > 0)).float()
    adv = ret - val
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    old = logp.gather(1, act[:, None]).squeeze(1)
    for param in opt.param_groups:
        param["lr"] = 3e-3 * (1 - it / 4)
    for _ in range(2):
        for idx in torch.randperm(32).split(8):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                new, v = split(net(obs[idx]))
            ratio = (new.gather(1, act[idx, None]).squeeze(1) - old[idx]).exp()
            pg = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            loss = pg + 0.5 * (v - ret[idx]).square().mean() + 0.01 * (new.exp() * new).sum(1).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
print(f"RESULT reward={ret.mean().item():.3f} loss={loss.item():.4f}")
