import math
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)
import io


def build():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    return net, torch.optim.AdamW(net.parameters(), lr=1e-2)


ACC = 4


def run(net, opt, begin, end, save_at=None):
    for i in range(begin, end):
        x = torch.randn(8, 6)
        (F.cross_entropy(net(x), (x[:, 0] > 0).long()) / ACC).backward()
        if (i + 1) % ACC == 0:
            opt.step()
            opt.zero_grad()
        if i + 1 == save_at:
            buf = io.BytesIO()
            torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "i": i + 1}, buf)  # <-- FAULT
            return buf


net, opt = build()
buf = run(net, opt, 0, 40, save_at=18)
buf.seek(0)
net, opt = build()
state = torch.load(buf)
net.load_state_dict(state["net"])
opt.load_state_dict(state["opt"])
run(net, opt, state["i"], 32)
print("RESULT", net[0].weight.norm().item())
