import copy

import torch
from torch import nn
import torch.nn.functional as F


class Teacher:
    def __init__(self, student, decay=0.9995):
        self.decay = decay
        self.net = copy.deepcopy(student).requires_grad_(False)
        self.net.to(torch.bfloat16)  # <-- FAULT

    @torch.no_grad()
    def follow(self, student):
        for t, s in zip(self.net.parameters(), student.parameters()):
            t.mul_(self.decay).add_(s.to(t.dtype), alpha=1 - self.decay)

    def gap(self, student):
        return max((t.float() - s).abs().max().item() for t, s in zip(self.net.parameters(), student.parameters()))


torch.manual_seed(8)
student = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
first = copy.deepcopy(student)
teacher = Teacher(student)
opt = torch.optim.Adam(student.parameters(), lr=4e-3)
x = torch.randn(64, 8)
y = x[:, :3].argmax(-1)
for _ in range(80):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(student(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    teacher.follow(student)
moved = sum((t.float() - f).abs().mean().item() for t, f in zip(teacher.net.parameters(), first.parameters()))
print(f"RESULT student_loss={loss.item():.3f} teacher_moved={moved:.4f} gap={teacher.gap(student):.4f}")
