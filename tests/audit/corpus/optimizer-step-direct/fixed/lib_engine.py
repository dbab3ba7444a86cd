import torch
from torch import nn

from lib_engine_lib import Engine

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
teacher = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).requires_grad_(False)


def kd_loss(x, T=2.0):
    s = torch.log_softmax(student(x) / T, -1)
    t = torch.softmax(teacher(x) / T, -1)
    return nn.functional.kl_div(s.float(), t.float(), reduction="batchmean") * T * T


eng = Engine(student, torch.optim.Adam(student.parameters(), lr=1e-3, eps=1e-3), fp16=True)
for _ in range(30):
    eng.train_on(kd_loss, torch.randn(32, 8))
v = max(s["exp_avg_sq"].max().item() for s in eng.optimizer.state.values())
print(f"RESULT kd={eng.last_loss:.4f} second_moment={v:.3e}")
