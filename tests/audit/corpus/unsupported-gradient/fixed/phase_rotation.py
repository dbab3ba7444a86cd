import torch
from torch import nn

from phase_rotation_lib import ComplexLinear

torch.manual_seed(50)
beam = ComplexLinear(6, 3)
readout = nn.Linear(3, 2)
optimizer = torch.optim.SGD([{"params": beam.parameters(), "lr": 0.01}, {"params": readout.parameters()}], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
done = 0
for snap in torch.randn(9, 16, 6, dtype=torch.cfloat):
    label = (snap[:, 0].real > 0).long()
    optimizer.zero_grad()
    power = beam(snap)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(readout(power), label)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(readout.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
print(f"RESULT done={done} loss={loss.item():.4f}")
