import torch
from torch import nn, optim
import torch.nn.functional as F

torch.manual_seed(0)
GAMMA = 0.9
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
a_opt = optim.SGD(actor.parameters(), lr=0.05)
c_opt = optim.SGD(critic.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=1)


def rollout(n):
    s = torch.randn(n, 4)
    s2 = s.roll(1, 0) * 0.9
    return s, s2


critic_steps = []
for it in range(8):
    s, s2 = rollout(24)
    with torch.autocast("cpu", dtype=torch.float16):
        logits, v = actor(s), critic(s).squeeze(1)
        with torch.no_grad():
            v2 = critic(s2).squeeze(1)
    act = torch.multinomial(logits.detach().float().softmax(1), 1).squeeze(1)
    r = torch.where(act == 0, s[:, 0], -s[:, 0])
    td = r + GAMMA * v2.float() - v.float()
    value_loss = td.pow(2).mean()
    policy_loss = -(td.detach() * F.log_softmax(logits.float(), 1)[torch.arange(24), act]).mean()

    a_opt.zero_grad()
    c_opt.zero_grad()
    scaler.scale(policy_loss).backward()
    scaler.scale(value_loss).backward()
    (g,) = torch.autograd.grad(critic(s).squeeze(1).float().sub(r + GAMMA * v2.float()).pow(2).mean(), critic[2].bias)
    b = critic[2].bias.detach().clone()
    scaler.step(a_opt)
    scaler.update()  # <-- FAULT
    scaler.step(c_opt)
    scaler.update()
    critic_steps.append(((b - critic[2].bias.detach()) / 0.05 / g).item())

print("RESULT critic_step_over_gradient=" + ",".join(f"{c:.2f}" for c in critic_steps))
