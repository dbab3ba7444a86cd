import torch

from molecules_lib import Net, molecules

torch.manual_seed(1)
gen = torch.Generator().manual_seed(2)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
applied, best = 0, float("inf")
for it in range(20):
    inputs, y = molecules(8, gen)
    with torch.autocast("cpu", dtype=torch.float16):
        pred = net(*inputs)
    loss = torch.nn.functional.l1_loss(pred, y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_value_(net.parameters(), 0.5)
    keep = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if scaler.get_scale() >= keep:
        applied += 1
        best = min(best, loss.item())
print(f"RESULT applied={applied} best_mae={best:.4f}")
