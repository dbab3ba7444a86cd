import torch
from torch import nn

torch.manual_seed(24)
train, valid = torch.randn(5, 16, 3), torch.randn(40, 3)
f = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(f.parameters(), lr=0.02)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0, threshold=0.05)
target = lambda t: t.square().sum(1, keepdim=True)  # noqa: E731
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
history = []
for _ in range(6):
    f.train()
    for x in train:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            err = nn.functional.mse_loss(f(x), target(x))
        scaler.scale(err).backward()
        scaler.step(opt)
        scaler.update()
    f.eval()
    with torch.inference_mode():
        history.append(nn.functional.mse_loss(f(valid), target(valid)).item())
    plateau.step(history[-1])
print(f"RESULT val={history[-1]:.4f} lr={opt.param_groups[0]['lr']:.5f}")
