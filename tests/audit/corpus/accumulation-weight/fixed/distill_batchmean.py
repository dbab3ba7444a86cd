import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5)).eval().requires_grad_(False)
student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))
T, alpha, ACC = 4.0, 0.7, 4
opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=6)
for window in range(6):
    for m in range(ACC):
        x = torch.randn(16, 10)
        y = torch.randint(0, 5, (16,))
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=-1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = student(x)
        logits = logits.float()
        kd = F.kl_div(F.log_softmax(logits / T, dim=-1), soft, reduction="batchmean") * T * T
        ce = F.cross_entropy(logits, y)
        loss = alpha * kd + (1 - alpha) * ce
        (loss / ACC).backward()
    opt.step()
    sched.step()
    opt.zero_grad()
print("RESULT", loss.item())
