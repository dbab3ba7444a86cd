import torch
from obs_norm_lib import Critic
from torch import nn

torch.manual_seed(3)
critic = Critic(obs=5, hidden=24)
optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)


def transitions(step):
    obs = torch.randn(32, 5) * torch.tensor([1.0, 10.0, 100.0, 0.1, 5.0])
    if step == 6:
        obs[4, 2] = float("inf")  # division by a zero time delta upstream
    ret = torch.tanh(obs[:, :1])
    return obs, ret


for step in range(20):
    obs, ret = transitions(step)
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", dtype=torch.float16):
        value = critic(obs)
    vf_loss = 0.5 * nn.functional.mse_loss(value.float(), ret)
    scaler.scale(vf_loss).backward()
    scaler.step(optimizer)
    scaler.update()

n = int(optimizer.state[critic.net[0].weight]["step"])
print(f"RESULT updates={n}/20 norm_finite={bool(critic.norm.mean.isfinite().all())} scale={scaler.get_scale():g}")
