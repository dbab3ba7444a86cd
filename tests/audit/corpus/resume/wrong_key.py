import io

import torch
from torch import nn
import torch.nn.functional as F


def new_run(resume_from=None):
    torch.manual_seed(27)
    net = nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=50)
    it = 0
    if resume_from is not None:
        ck = torch.load(resume_from)
        net.load_state_dict(ck["model"])
        opt.load_state_dict(ck["optimizer"])
        it = ck["iter"]
        if ck.get("grad_scaler") is not None:  # <-- FAULT
            scaler.load_state_dict(ck["grad_scaler"])
    return net, opt, scaler, it


def train(net, opt, scaler, it, until):
    lost = 0
    while it < until:
        g = torch.Generator().manual_seed(it)
        x = torch.randn(10, 3, 8, generator=g)
        y = torch.stack([x.amax((1, 2)), x.amin((1, 2))], 1) * 4
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        gn = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        lost += int(not torch.isfinite(gn))
        scaler.step(opt)
        scaler.update()
        it += 1
    f = io.BytesIO()
    torch.save({"model": net.state_dict(), "optimizer": opt.state_dict(), "scaler": scaler.state_dict(), "iter": it}, f)
    f.seek(0)
    return f, lost, scaler.get_scale()


ckpt, lost1, scale1 = train(*new_run(), until=12)
_, lost2, scale2 = train(*new_run(ckpt), until=24)
print(f"RESULT lost_before={lost1} lost_after_resume={lost2} scale={scale1:.0f},{scale2:.0f}")
