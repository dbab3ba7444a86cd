import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(47)
pi = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
vf = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
opt_pi, opt_vf = torch.optim.Adam(pi.parameters(), lr=5e-3), torch.optim.Adam(vf.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
returns = []
for _ in range(10):
    s, logps, values, rewards, ents = torch.randn(8, 3), [], [], [], []
    for _ in range(5):
        with torch.autocast("cpu", dtype=torch.float16):
            d, v = Categorical(logits=pi(s).float()), vf(s).float().squeeze(1)
        a = d.sample()
        rewards.append((a == (s[:, 0] > 0)).float())
        logps.append(d.log_prob(a))
        ents.append(d.entropy())
        values.append(v)
        s = 0.8 * s + 0.5 * torch.randn_like(s)
    R, targets = torch.zeros(8), []
    for r in reversed(rewards):
        R = r + 0.9 * R
        targets.insert(0, R)
    target, value = torch.stack(targets), torch.stack(values)
    adv = target - value.detach()
    loss_pi = -(torch.stack(logps) * adv).mean() - 0.01 * torch.stack(ents).mean()
    loss_v = nn.functional.mse_loss(value, target)
    opt_pi.zero_grad()
    opt_vf.zero_grad()
    scaler.scale(loss_pi).backward()
    scaler.scale(loss_v).backward()
    scaler.unscale_(opt_pi)
    nn.utils.clip_grad_norm_(pi.parameters(), 0.5)
    scaler.step(opt_vf)
    scaler.step(opt_pi)
    scaler.update()
    returns.append(torch.stack(rewards).mean().item())
print(f"RESULT reward={returns[-1]:.3f} value_loss={loss_v.item():.4f}")
