import json

import torch
from torch import nn


class Logger(list):
    def write(self, **row):
        self.append(row)
        print(json.dumps(row))


class Learner:
    K = 3

    def __init__(self, log):
        self.net = nn.Sequential(nn.LayerNorm(7), nn.Linear(7, 14), nn.Tanh(), nn.Linear(14, 1))
        self.opt = torch.optim.Rprop(self.net.parameters(), lr=1e-3)
        self.log = log
        self.updates = 0
        self.pending = []

    def feed(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(self.net(x).float(), y)
        loss.mul(1 / self.K).backward()
        self.pending.append(loss.item())
        self.updates += 1  # <-- FAULT
        if len(self.pending) == self.K:
            self.learn()

    def learn(self):
        self.opt.step()
        self.opt.zero_grad()
        self.log.write(updates=self.updates, loss=round(sum(self.pending) / self.K, 4))
        self.pending = []


torch.manual_seed(10)
log = Logger()
agent = Learner(log)
for _ in range(Learner.K * 6):
    x = torch.randn(10, 7)
    agent.feed(x, x.std(1, keepdim=True))
print(f"RESULT logged_updates={log[-1]['updates']} rows={len(log)} final_loss={log[-1]['loss']}")
