import torch
from engine_cosine_lib import Engine
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.manual_seed(8)
TOTAL = 16
net = nn.Sequential(nn.Linear(9, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
warm = LinearLR(optimizer, start_factor=0.25, total_iters=4)
cos = CosineAnnealingLR(optimizer, T_max=TOTAL - 4)
engine = Engine(net, optimizer, SequentialLR(optimizer, [warm, cos], milestones=[4]))

g = torch.Generator().manual_seed(8)
for _ in range(TOTAL):
    x = torch.rand(24, 9, generator=g)
    engine.train_iter(x, 20 * x.norm(dim=1, keepdim=True))
print(f"RESULT iters={TOTAL} real_steps={engine.real_steps} schedule_at={engine.scheduler.last_epoch}")
