from dataclasses import dataclass, field
from typing import Iterator

import torch
from torch import nn
from torch.distributions import Categorical


class Grid:
    def __init__(self, n, seed):
        self.n = n
        self.g = torch.Generator().manual_seed(seed)
        self.pos = torch.zeros(n, 2)

    def reset(self):
        self.pos = torch.randint(-3, 4, (self.n, 2), generator=self.g).float()
        return self.obs()

    def obs(self):
        return torch.cat([self.pos / 3, self.pos.abs() / 3], 1)

    def step(self, action):
        move = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])[action]
        before = self.pos.abs().sum(1)
        self.pos = (self.pos + move).clamp(-4, 4)
        return self.obs(), before - self.pos.abs().sum(1)


class Agent(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, hidden), nn.Tanh())
        self.memory = nn.GRUCell(hidden, hidden)
        self.pi = nn.Linear(hidden, 4)
        self.v = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def policy_side(self):
        yield from self.trunk.parameters()
        yield from self.memory.parameters()
        yield from self.pi.parameters()

    def forward(self, obs, h):
        z = self.trunk(obs)
        with torch.autocast("cpu", enabled=False):
            h = self.memory(z.float(), h)
        return self.pi(h).float(), self.v(h.detach()).float().squeeze(1), h


@dataclass
class Rollout:
    logp: list = field(default_factory=list)
    value: list = field(default_factory=list)
    reward: list = field(default_factory=list)
    entropy: list = field(default_factory=list)

    def returns(self, last, gamma):
        out, acc = [], last
        for r in reversed(self.reward):
            acc = r + gamma * acc
            out.append(acc)
        return torch.stack(out[::-1])

    def stack(self, name):
        return torch.stack(getattr(self, name))


@dataclass
class Stats:
    iterations: int = 0
    pi_updates: int = 0
    v_updates: int = 0
    best: float = float("-inf")


class A2C:
    horizon, gamma, beta = 4, 0.9, 0.01

    def __init__(self, seed=5):
        torch.manual_seed(seed)
        self.env = Grid(12, seed)
        self.agent = Agent()
        self.opt_pi = torch.optim.RMSprop(self.agent.policy_side(), lr=4e-3)
        self.opt_v = torch.optim.Adam(self.agent.v.parameters(), lr=8e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=8)
        self.found = {}
        for name, opt in (("pi", self.opt_pi), ("v", self.opt_v)):
            opt.register_step_post_hook(lambda *_, name=name: self.found.update({name: True}))
        self.stats = Stats()

    def collect(self):
        obs, h, roll = self.env.reset(), torch.zeros(self.env.n, 16), Rollout()
        with torch.autocast("cpu", dtype=torch.float16):
            for _ in range(self.horizon):
                logits, value, h = self.agent(obs, h)
                dist = Categorical(logits=logits)
                action = dist.sample()
                obs, reward = self.env.step(action)
                for name, item in dict(logp=dist.log_prob(action), value=value, reward=reward, entropy=dist.entropy()).items():
                    getattr(roll, name).append(item)
            with torch.no_grad():
                _, last, _ = self.agent(obs, h)
        return roll, last

    def losses(self):
        roll, last = self.collect()
        goal = roll.returns(last, self.gamma)
        value = roll.stack("value")
        adv = goal - value.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        actor = -(adv * roll.stack("logp")).mean() - self.beta * roll.stack("entropy").mean()
        return actor, nn.functional.smooth_l1_loss(value, goal), roll.stack("reward").mean().item()

    def __iter__(self) -> Iterator[Stats]:
        while True:
            actor, critic, reward = self.losses()
            for opt in (self.opt_pi, self.opt_v):
                opt.zero_grad(set_to_none=False)
            scaled = self.scaler.scale([actor, critic])
            for part in scaled:
                part.backward()
            self.scaler.unscale_(self.opt_pi)
            nn.utils.clip_grad_norm_([*self.agent.policy_side()], 0.5)
            self.found.clear()
            self.scaler.step(self.opt_pi)
            self.scaler.step(self.opt_v)
            self.scaler.update()
            self.stats.iterations += 1
            self.stats.pi_updates += self.found.get("pi", False)
            self.stats.v_updates += self.found.get("v", False)
            self.stats.best = max(self.stats.best, reward)
            yield self.stats


def main():
    for s in A2C():
        if s.iterations == 16:
            break
    print(f"RESULT iterations={s.iterations} pi={s.pi_updates} v={s.v_updates} best_reward={s.best:.4f}")


main()
