import torch
from torch import nn
from torch.optim import lr_scheduler as ls
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
X = torch.randn(60, 4)
loader = DataLoader(TensorDataset(X, (X[:, 0] * X[:, 1] > 0).float().unsqueeze(1)), batch_size=12)
net = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
sched = ls.SequentialLR(opt, [ls.ConstantLR(opt, 0.3, 2), ls.ExponentialLR(opt, 0.8)], milestones=[2])
amp = torch.amp.GradScaler("cpu", init_scale=2.0**18)
for epoch in range(6):
    for a, b in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.binary_cross_entropy_with_logits(net(a), b)
        opt.zero_grad()
        amp.scale(loss).backward()
        amp.step(opt)
        amp.update()
    sched.step()
print(f"RESULT loss={loss.item():.4f} lr={opt.param_groups[0]['lr']:.5f}")
