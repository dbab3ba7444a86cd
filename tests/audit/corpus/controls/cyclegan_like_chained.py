import itertools

import torch
from torch import nn

torch.manual_seed(13)
ab, ba = nn.Linear(4, 4), nn.Linear(4, 4)
da, db = nn.Linear(4, 1), nn.Linear(4, 1)
opt_gen = torch.optim.Adam(itertools.chain(ab.parameters(), ba.parameters()), lr=1e-3)
opt_dis = torch.optim.Adam([{"params": da.parameters()}, {"params": db.parameters(), "lr": 5e-4}], lr=1e-3)
mse, l1 = nn.MSELoss(), nn.L1Loss()
for _ in range(15):
    a, b = torch.randn(8, 4), torch.randn(8, 4) * 2 + 1
    for p in itertools.chain(da.parameters(), db.parameters()):
        p.requires_grad = False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fb, fa = ab(a), ba(b)
        gan = mse(db(fb), torch.ones(8, 1)) + mse(da(fa), torch.ones(8, 1))
        cyc = l1(ba(fb), a) + l1(ab(fa), b)
    opt_gen.zero_grad()
    (gan + 10 * cyc).backward()
    opt_gen.step()
    for p in itertools.chain(da.parameters(), db.parameters()):
        p.requires_grad = True
    opt_dis.zero_grad()
    for d, real, fake in ((da, a, fa), (db, b, fb)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss_d = 0.5 * (mse(d(real), torch.ones(8, 1)) + mse(d(fake.detach()), torch.zeros(8, 1)))
        loss_d.backward()
    opt_dis.step()
print(f"RESULT gan={gan.item():.4f} cycle={cyc.item():.4f}")
