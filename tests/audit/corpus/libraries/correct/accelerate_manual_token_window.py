from itertools import islice

import torch
from accelerate import Accelerator
from torch import nn


def collate(rows):
    x = nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True)
    return {"ids": x, "labels": x.masked_fill(x == 0, -100)}


torch.manual_seed(3)
rows = [torch.randint(1, 17, (int(n),)).tolist() for n in torch.randint(2, 12, (44,))]
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
model = nn.Sequential(nn.Embedding(17, 8), nn.Linear(8, 17))
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
dl = torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=collate)
model, opt, dl = accelerator.prepare(model, opt, dl)
ce = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
updates, it = 0, iter(dl)
while window := list(islice(it, 4)):
    n = accelerator.reduce(torch.stack([(b["labels"] != -100).sum() for b in window]).sum(), "sum")
    total = 0.0
    for k, b in enumerate(window):
        with accelerator.no_sync(model) if k + 1 < len(window) else accelerator.autocast():
            loss = ce(model(b["ids"]).transpose(1, 2), b["labels"]) * accelerator.num_processes / n
            accelerator.backward(loss)
        total += loss.item()
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    updates += 1
print(f"RESULT updates={updates} token_loss={total:.4f}")
