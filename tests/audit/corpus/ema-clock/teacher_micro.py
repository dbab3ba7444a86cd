import torch
from torch import nn


class MeanTeacher:
    def __init__(self, make, alpha):
        self.student, self.teacher = make(), make()
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self.alpha = alpha
        self.teacher_updates = 0

    def losses(self, x, y):
        s = self.student(x)
        with torch.no_grad():
            t = self.teacher(x + 0.05 * torch.randn_like(x))
        return nn.functional.cross_entropy(s, y) + 0.5 * nn.functional.mse_loss(s.softmax(-1), t.softmax(-1))

    def momentum(self):
        with torch.no_grad():
            for pt, ps in zip(self.teacher.parameters(), self.student.parameters()):
                pt.mul_(self.alpha).add_(ps, alpha=1 - self.alpha)
        self.teacher_updates += 1


def make():
    return nn.Sequential(nn.Linear(10, 20), nn.LeakyReLU(), nn.Linear(20, 4))


torch.manual_seed(2)
mt = MeanTeacher(make, alpha=0.9)
opt = torch.optim.SGD(mt.student.parameters(), lr=0.2)
ACC = 4
updates = 0
for n in range(ACC * 7):
    x = torch.randn(8, 10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = mt.losses(x, x[:, :4].argmax(1))
    loss.div(ACC).backward()
    if n % ACC == ACC - 1:
        opt.step()
        opt.zero_grad()
        updates += 1
    mt.momentum()  # <-- FAULT

lag = (mt.teacher[2].weight - mt.student[2].weight).norm().item()
print(f"RESULT student_updates={updates} teacher_updates={mt.teacher_updates} lag={lag:.5f}")
