import copy

import torch


class Teacher:
    def __init__(self, student, decay=0.999, dtype=torch.bfloat16):
        self.decay = decay
        self.net = copy.deepcopy(student).to(dtype).eval()  # <-- FAULT
        self.net.requires_grad_(False)
        self.n = 0

    @torch.no_grad()
    def update(self, student):
        self.n += 1
        for t, s in zip(self.net.parameters(), student.parameters()):
            t.mul_(self.decay).add_(s.to(t.dtype), alpha=1 - self.decay)

    def distance(self, other):
        mine = torch.cat([p.flatten().float() for p in self.net.parameters()])
        yours = torch.cat([p.detach().flatten().float() for p in other.parameters()])
        return (mine - yours).norm().item()
