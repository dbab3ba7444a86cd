import copy

import torch
from torch import nn

import fedprox_client_lib as fed

torch.manual_seed(88)
server = nn.Linear(6, 4)
clients = [torch.randn(40, 6) + 2 * torch.randn(6) for _ in range(3)]
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
drift = []
for rnd in range(2):
    updates = []
    for c, data in enumerate(clients):
        local = copy.deepcopy(server)
        opt = torch.optim.SGD(local.parameters(), lr=0.1)
        for _ in range(8):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(local(data), (data[:, 0] > 0).long() + c)
            opt.zero_grad()
            scaler.scale(loss).backward()
            fed.pull_to(local, server, mu=2.0)
            scaler.step(opt)
            scaler.update()
        updates.append(local)
        drift.append(fed.distance(local, server))
    fed.average_(server, updates)
print("RESULT drift=" + " ".join(f"{d:.4f}" for d in drift))
