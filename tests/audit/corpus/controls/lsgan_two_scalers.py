import torch
from torch import nn

torch.manual_seed(11)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 20), nn.LeakyReLU(0.1), nn.Linear(20, o))


gen, dis = mlp(4, 3), mlp(3, 1)
opts = {"g": torch.optim.RMSprop(gen.parameters(), 5e-4), "d": torch.optim.RMSprop(dis.parameters(), 5e-4)}
amps = {k: torch.amp.GradScaler("cpu", init_scale=2.0**e, growth_interval=4) for k, e in (("g", 8), ("d", 10))}
half = dict(device_type="cpu", dtype=torch.float16)
for _ in range(10):
    real, z = torch.randn(8, 3).tanh(), torch.randn(8, 4)
    with torch.autocast(**half):
        fake = gen(z)
        d_loss = (dis(real) - 1).square().mean() + dis(fake.detach()).square().mean()
    amps["d"].scale(d_loss).backward()
    amps["d"].step(opts["d"])
    amps["d"].update()
    dis.requires_grad_(False)
    with torch.autocast(**half):
        g_loss = (dis(fake) - 1).square().mean()
    amps["g"].scale(g_loss).backward()
    amps["g"].step(opts["g"])
    amps["g"].update()
    dis.requires_grad_(True)
    for o in opts.values():
        o.zero_grad()
print(f"RESULT d={d_loss.item():.4f} g={g_loss.item():.4f}")
