import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(2024)
policy = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)


ret = []
for ep in range(30):
    obs = torch.randn(64, 5)
    best = obs[:, :3].argmax(1)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = policy(obs)
    logp = F.log_softmax(logits.float(), -1)
    act = torch.distributions.Categorical(logits=logp.detach()).sample()
    reward = (act == best).float()
    adv = reward - reward.mean()
    pg = -(adv * logp.gather(1, act[:, None]).squeeze(1)).mean()
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(pg).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(policy.parameters(), 0.05)
    scaler.step(optimizer)
    scaler.update()
    ret.append(reward.mean().item())
print(f"RESULT return_first10={sum(ret[:10]) / 10:.3f} return_last10={sum(ret[-10:]) / 10:.3f}")
