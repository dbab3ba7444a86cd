import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
fabric.seed_everything(6, verbose=False)
net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.9)
net, opt = fabric.setup(net, opt)
x = torch.randn(80, 1, 8)
dl = fabric.setup_dataloaders(DataLoader(TensorDataset(x, (x.mean((1, 2)) > 0).long()), batch_size=8))
K, n = 4, len(dl)
for epoch in range(2):
    for i, (a, y) in enumerate(dl):
        size = K if i < n - n % K else n % K
        closing = (i + 1) % K == 0 or i + 1 == n
        with fabric.no_backward_sync(net, enabled=not closing):
            loss = nn.functional.cross_entropy(net(a), y)
            fabric.backward(loss / size)
        if closing:
            fabric.clip_gradients(net, opt, clip_val=0.5)
            opt.step()
            opt.zero_grad()
    sched.step()
print(f"RESULT loss={loss.item():.4f} lr={sched.get_last_lr()[0]:.5f}")
