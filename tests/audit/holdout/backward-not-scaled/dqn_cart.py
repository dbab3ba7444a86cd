import collections
import copy
import random

import torch
from torch import nn, optim

Transition = collections.namedtuple("Transition", "s a r s2 done")


class Corridor:
    def __init__(self, n=7):
        self.n = n

    def reset(self):
        self.pos, self.t = self.n // 2, 0
        return self.obs()

    def obs(self):
        return [1.0 if i == self.pos else 0.0 for i in range(self.n)]

    def step(self, a):
        self.t += 1
        self.pos += 1 if a else -1
        done = self.pos in (0, self.n - 1) or self.t > 12
        return self.obs(), float(self.pos == self.n - 1), done


class Agent:
    GAMMA, BATCH, SYNC = 0.9, 24, 8

    def __init__(self, n_obs, amp=True, lr=0.3):
        self.q = nn.Sequential(nn.Linear(n_obs, 20), nn.ReLU(), nn.Linear(20, 2))
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = optim.SGD(self.q.parameters(), lr=lr)
        self.amp = amp
        self.scaler = torch.amp.GradScaler("cpu", enabled=amp, init_scale=2.0**12)
        self.memory = collections.deque(maxlen=400)
        self.learned = 0

    def act(self, s, eps):
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.q(torch.tensor(s)).argmax())

    def td_target(self, b):
        with torch.no_grad():
            nxt = self.target(b.s2).max(1).values
        return b.r + self.GAMMA * nxt * (1 - b.done)

    def learn(self):
        if len(self.memory) < self.BATCH:
            return None
        rows = random.sample(self.memory, self.BATCH)
        b = Transition(*(torch.tensor(col, dtype=torch.float32) for col in zip(*rows, strict=True)))
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.amp):
            q = self.q(b.s).gather(1, b.a.long().unsqueeze(1)).squeeze(1)
            loss = nn.functional.smooth_l1_loss(q, self.td_target(b))
        self.opt.zero_grad()
        loss.backward()  # <-- FAULT
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.learned += 1
        if self.learned % self.SYNC == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.item()


def main(episodes=12):
    random.seed(0)
    torch.manual_seed(0)
    env = Corridor()
    agent = Agent(env.n)
    w0 = agent.q[0].weight.detach().clone()
    for ep in range(episodes):
        s, done = env.reset(), False
        while not done:
            a = agent.act(s, eps=0.5)
            s2, r, done = env.step(a)
            agent.memory.append(Transition(s, float(a), r, s2, float(done)))
            s = s2
            if agent.learned < 40:
                agent.learn()
        print(f"ep {ep} memory {len(agent.memory)} learned {agent.learned}")
    moved = (agent.q[0].weight - w0).norm().item()
    print(f"RESULT learned={agent.learned} moved={moved:.3e} q_right={agent.q(torch.tensor(env.obs())).max().item():.4f}")


main()
