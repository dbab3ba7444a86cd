from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    obs: int = 6
    actions: int = 3
    rollouts_per_update: int = 5
    horizon: int = 16
    lr: float = 0.3
    iters: int = 6
    grad_clip: float = 1.0


def collect(policy, cfg, gen):
    obs = torch.randn(cfg.horizon, cfg.obs, generator=gen)
    with torch.no_grad():
        probs = torch.softmax(policy(obs), -1)
        act = torch.multinomial(probs, 1, generator=gen).squeeze(1)
    rew = (act == obs[:, :3].argmax(1)).float()
    return obs, act, rew - rew.mean()


def surrogate(policy, obs, act, adv):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = policy(obs)
    logp = torch.log_softmax(logits.float(), -1).gather(1, act[:, None]).squeeze(1)
    return -(logp * adv).mean()


def improve(policy, opt, scaler, cfg, gen):
    opt.zero_grad()
    for _ in range(cfg.rollouts_per_update):
        loss = surrogate(policy, *collect(policy, cfg, gen)) / cfg.rollouts_per_update
        scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = nn.utils.clip_grad_norm_(policy.parameters(), cfg.grad_clip)
    scaler.step(opt)
    scaler.update()
    return norm.item()


def main():
    cfg = Config()
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    policy = nn.Sequential(nn.Linear(cfg.obs, 32), nn.ReLU(), nn.Linear(32, cfg.actions))
    before = policy[0].weight.detach().clone()
    opt = torch.optim.SGD(policy.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    norms = [improve(policy, opt, scaler, cfg, gen) for _ in range(cfg.iters)]
    shift = (policy[0].weight - before).norm().item()
    print(f"RESULT norm0={norms[0]:.5f} shift={shift:.5f}")


main()
