import torch
from torch import nn


class MeanTeacherish:
    def __init__(self):
        self.clf = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        self.optim = torch.optim.SGD(self.clf.parameters(), lr=0.2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

    @property
    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def labelled(self, x, y):
        with self.amp:
            loss = nn.functional.cross_entropy(self.clf(x), y)
        self.scaler.scale(loss).backward()
        return loss.item()

    def unlabelled(self, x, w):
        with self.amp:
            p = self.clf(x).softmax(-1)
        ent = -(p * p.clamp_min(1e-6).log()).sum(-1).mean()
        self.scaler.scale(w * ent).backward()
        return ent.item()

    def step(self, lab, unl):
        self.optim.zero_grad()
        a = self.labelled(*lab)
        b = self.unlabelled(unl, 2.0)
        self.scaler.step(self.optim)
        self.scaler.update()
        return a, b


torch.manual_seed(61)
mt = MeanTeacherish()
for _ in range(25):
    xl = torch.randn(8, 6)
    ce, ent = mt.step((xl, (xl[:, 0] > 0).long()), torch.randn(32, 6))
print(f"RESULT ce={ce:.4f} entropy={ent:.4f}")
