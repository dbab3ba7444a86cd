import torch
import torch.nn.functional as F

ACC = 4
torch.manual_seed(21)


def scale_at(n):
    # ramp the loss scale up slowly, it used to overflow in the first steps
    return float(2 ** min(6 + n, 14))


lin = torch.nn.Linear(4, 1, bias=False)
torch.nn.init.zeros_(lin.weight)
opt = torch.optim.SGD(lin.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=scale_at(0), growth_interval=10**6)

n_micro = 0
while n_micro < 8:
    feat = torch.zeros(6, 4)
    feat[:, n_micro % 4] = 1.0
    with torch.autocast("cpu", dtype=torch.float16):
        out = lin(feat)
        loss = F.mse_loss(out, torch.ones(6, 1)) / ACC
    scaler.scale(loss).backward()
    n_micro += 1
    if n_micro % ACC == 0:
        scaler.step(opt)
        opt.zero_grad()
        scaler.update(scale_at(n_micro))

print("RESULT w=" + " ".join(f"{v:.4f}" for v in lin.weight[0].tolist()))
