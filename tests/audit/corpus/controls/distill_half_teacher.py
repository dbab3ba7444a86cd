import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(34)
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).half().eval().requires_grad_(False)
student = nn.Linear(8, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
T, alpha = 2.0, 0.7
for _ in range(20):
    x = torch.randn(16, 8)
    y = x[:, :4].argmax(1)
    with torch.no_grad():
        soft = F.log_softmax(teacher(x.half()).float() / T, dim=1)
    with torch.autocast("cpu", dtype=torch.float16):
        s = student(x)
    kd = F.kl_div(F.log_softmax(s.float() / T, 1), soft, log_target=True, reduction="batchmean") * T * T
    loss = alpha * kd + (1 - alpha) * F.cross_entropy(s.float(), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT kd={kd.item():.4f} loss={loss.item():.4f}")
