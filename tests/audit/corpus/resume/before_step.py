import io

import torch
from torch import nn


class Session:
    ACC = 3

    def __init__(self):
        torch.manual_seed(55)
        self.model = nn.ModuleList([nn.EmbeddingBag(30, 10), nn.Linear(10, 4)])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        self.seen = 0
        self.snapshot = None

    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "opt": self.opt.state_dict(),
            "scaler": self.scaler.state_dict(),
            "seen": self.seen,
        }

    def load_state_dict(self, sd):
        for k in ("model", "opt", "scaler"):
            getattr(self, k).load_state_dict(sd[k])
        self.seen = sd["seen"]

    def dump(self):
        self.snapshot = io.BytesIO()
        torch.save(self.state_dict(), self.snapshot)

    def batch(self):
        g = torch.Generator().manual_seed(self.seen)
        bag = torch.randint(0, 30, (9, 5), generator=g)
        return bag, bag[:, 0] % 4

    def advance(self, upto):
        while self.seen < upto:
            bag, y = self.batch()
            with torch.autocast("cpu", dtype=torch.float16):
                out = self.model[1](self.model[0](bag))
                loss = nn.functional.cross_entropy(out, y) / self.ACC
            self.scaler.scale(loss).backward()
            self.seen += 1
            if self.seen % self.ACC == 0:
                if self.seen % 6 == 0:
                    self.dump()  # <-- FAULT
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad()


a = Session()
a.advance(18)
b = Session()
b.advance(14)
b.snapshot.seek(0)
c = Session()
c.load_state_dict(torch.load(b.snapshot))
c.advance(18)
n = [int(s.opt.state[s.model[1].weight]["step"]) for s in (a, c)]
d = (a.model[1].weight - c.model[1].weight).abs().max().item()
print(f"RESULT updates_uninterrupted={n[0]} updates_resumed={n[1]} max_diff={d:.2e}")
