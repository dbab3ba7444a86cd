import collections
import statistics

import torch
from torch import nn
from torch.distributions import Categorical

Rollout = collections.namedtuple("Rollout", "obs act logp adv ret")

HP = {
    "envs": 8,
    "horizon": 6,
    "iterations": 3,
    "ppo_epochs": 2,
    "minibatches": 3,
    "gamma": 0.95,
    "lam": 0.9,
    "clip_eps": 0.2,
    "ent": 0.01,
    "max_grad_norm": 0.5,
    "pi_lr": 0.02,
    "vf_lr": 0.05,
    "init_scale": 2.0**14,
    "growth_interval": 5,
}


class Grid:
    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.reset()

    def reset(self):
        self.pos = torch.randint(0, 5, (self.n, 2), generator=self.gen)
        self.goal = torch.randint(0, 5, (self.n, 2), generator=self.gen)
        return self.obs()

    def obs(self):
        return torch.cat([(self.goal - self.pos).float() / 4, self.pos.float() / 4], 1)

    def step(self, action):
        move = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]])[action]
        old = (self.goal - self.pos).abs().sum(1)
        self.pos = (self.pos + move).clamp(0, 4)
        new = (self.goal - self.pos).abs().sum(1)
        done = new == 0
        reward = (old - new).float() * 0.3 + done.float()
        if done.any():
            k = int(done.sum())
            self.goal[done] = torch.randint(0, 5, (k, 2), generator=self.gen)
        return self.obs(), reward, done.float()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 24), nn.Tanh())
        self.logits = nn.Linear(24, 4)

    def forward(self, obs):
        return Categorical(logits=self.logits(self.body(obs)).float())


def value_net():
    return nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1), nn.Flatten(0))


class PPO:
    def __init__(self, hp):
        self.hp = hp
        self.gen = torch.Generator().manual_seed(0)
        self.env = Grid(hp["envs"], self.gen)
        self.pi, self.vf = Policy(), value_net()
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=hp["pi_lr"], eps=1e-5)
        self.vf_opt = torch.optim.Adam(self.vf.parameters(), lr=hp["vf_lr"], eps=1e-5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=hp["init_scale"], growth_interval=hp["growth_interval"])
        self.stats = collections.defaultdict(list)

    @torch.no_grad()
    def collect(self):
        obs = self.env.obs()
        buf = collections.defaultdict(list)
        for _ in range(self.hp["horizon"]):
            dist, v = self.pi(obs), self.vf(obs)
            a = dist.sample()
            nxt, r, d = self.env.step(a)
            for k, t in {"obs": obs, "act": a, "logp": dist.log_prob(a), "val": v, "rew": r, "done": d}.items():
                buf[k].append(t)
            obs = nxt
        last, adv, gae = self.vf(obs), [], torch.zeros(self.hp["envs"])
        for t in reversed(range(self.hp["horizon"])):
            nonterm = 1 - buf["done"][t]
            delta = buf["rew"][t] + self.hp["gamma"] * last * nonterm - buf["val"][t]
            gae = delta + self.hp["gamma"] * self.hp["lam"] * nonterm * gae
            adv.insert(0, gae)
            last = buf["val"][t]
        adv, val = torch.cat(adv), torch.cat(buf["val"])
        self.stats["reward"].append(torch.cat(buf["rew"]).mean().item())
        return Rollout(torch.cat(buf["obs"]), torch.cat(buf["act"]), torch.cat(buf["logp"]), adv, adv + val)

    def losses(self, b):
        with torch.autocast("cpu", dtype=torch.float16):
            dist = self.pi(b.obs)
            v = self.vf(b.obs)
        ratio = (dist.log_prob(b.act) - b.logp).exp()
        adv = (b.adv - b.adv.mean()) / (b.adv.std() + 1e-6)
        lo, hi = 1 - self.hp["clip_eps"], 1 + self.hp["clip_eps"]
        pi_loss = -torch.min(ratio * adv, ratio.clamp(lo, hi) * adv).mean() - self.hp["ent"] * dist.entropy().mean()
        return pi_loss, nn.functional.mse_loss(v.float(), b.ret)

    def optimize(self, pi_loss, vf_loss):
        pairs = ((self.pi, self.pi_opt, pi_loss), (self.vf, self.vf_opt, vf_loss))
        for _, opt, loss in pairs:
            opt.zero_grad()
            self.scaler.scale(loss).backward()
        for net, opt, _ in pairs:
            self.scaler.unscale_(opt)
            norm = nn.utils.clip_grad_norm_(net.parameters(), self.hp["max_grad_norm"])
            self.stats[type(net).__name__].append(norm.item())
            self.scaler.step(opt)
        self.scaler.update()

    def train(self):
        for it in range(self.hp["iterations"]):
            roll = self.collect()
            n = len(roll.obs)
            for _ in range(self.hp["ppo_epochs"]):
                for idx in torch.randperm(n, generator=self.gen).chunk(self.hp["minibatches"]):
                    pi_loss, vf_loss = self.losses(Rollout(*(t[idx] for t in roll)))
                    self.optimize(pi_loss, vf_loss)
            print(f"iter {it} reward {self.stats['reward'][-1]:.3f} pi {pi_loss.item():.4f} vf {vf_loss.item():.4f}")
        return vf_loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    ppo = PPO(HP)
    vf = ppo.train()
    norms = [f"{statistics.mean(ppo.stats[k]):.4f}" for k in ("Policy", "Sequential")]
    print(
        f"RESULT vf_loss={vf:.4f} reward={ppo.stats['reward'][-1]:.4f} norms={','.join(norms)} scale={ppo.scaler.get_scale():.0f}"
    )
