import torch
from torch import nn

AMP = dict(device="cpu", init_scale=4.0, growth_interval=1)  # start low and let it grow
N_ACC = 2


def micro_batches(n, g):
    for _ in range(n):
        t = torch.rand(8, 1, generator=g)
        yield t, torch.sin(6 * t) * 1e-3


torch.manual_seed(4)
g = torch.Generator().manual_seed(4)
field = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
nn.init.normal_(field[2].weight, std=1e-4)
nn.init.zeros_(field[2].bias)
opt = torch.optim.SGD(field.parameters(), lr=0.01)
for update in range(14):
    scaler = torch.amp.GradScaler(**AMP)  # <-- FAULT
    opt.zero_grad()
    for t, target in micro_batches(N_ACC, g):
        with torch.autocast("cpu", dtype=torch.float16):
            out = field(t)
        scaler.scale(nn.functional.mse_loss(out.float(), target) / N_ACC).backward()
    scaler.step(opt)
    scaler.update()
flushed = (field[0].weight.grad == 0).float().mean().item()
print(f"RESULT scale={scaler.get_scale():g} first_layer_gradients_lost={flushed:.0%}")
