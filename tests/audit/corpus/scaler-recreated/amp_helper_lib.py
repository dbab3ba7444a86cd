import torch

INIT_SCALE = 2.0**17


def forward_loss(net, docs, relevance):
    with torch.autocast("cpu", dtype=torch.float16):
        s = net(docs).squeeze(-1)
    margin = s[:, :, None] - s[:, None, :]
    better = relevance[:, :, None] & ~relevance[:, None, :]
    return (torch.nn.functional.softplus(-margin.float()) * better).sum()


def amp_step(loss, optimizer, max_norm=5.0):
    scaler = torch.amp.GradScaler("cpu", init_scale=INIT_SCALE)  # <-- FAULT
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    params = optimizer.param_groups[0]["params"]
    torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
