import torch
from torch import nn

torch.manual_seed(28)
net = nn.ModuleDict(
    {
        "front": nn.Conv1d(4, 8, 5),
        "norm": nn.InstanceNorm1d(8, affine=True, track_running_stats=True),
        "cls": nn.Linear(8, 6),
    }
)
opt = torch.optim.RAdam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)


def embed(wave):
    h = net["norm"](net["front"](wave))
    return torch.relu(h).mean(-1)


def batch(i):
    spk = torch.randint(0, 6, (10,))
    wave = torch.randn(10, 4, 16) + spk[:, None, None] * 0.2
    if i == 7:
        wave[0] *= 1e6  # int16 pcm that nobody normalised
    return wave, spk


skipped = 0
for i in range(14):
    wave, spk = batch(i)
    if wave.abs().amax() > 1e4:
        skipped += 1
        continue
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        e = embed(wave)
        loss = nn.functional.cross_entropy(net["cls"](e).float(), spk)
    scaler.scale(loss).backward()
    s = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    skipped += scaler.get_scale() < s

net.eval()
with torch.no_grad():
    val = nn.functional.cross_entropy(net["cls"](embed(batch(0)[0])), batch(0)[1])
print(f"RESULT skipped={skipped} val_loss={val:.3f}")
