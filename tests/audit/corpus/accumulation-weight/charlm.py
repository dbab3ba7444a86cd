import argparse

import torch
from charlm_lib import CharModel, batches, lm_loss

parser = argparse.ArgumentParser()
parser.add_argument("--accum", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--updates", type=int, default=8)
parser.add_argument("--seed", type=int, default=1337)
args = parser.parse_args()

torch.manual_seed(args.seed)
model = CharModel()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
data = batches(args.seed)
start = [p.detach().clone() for p in model.parameters()]

for step in range(args.updates):
    running = 0.0
    for micro in range(args.accum):
        x, y = next(data)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = lm_loss(model, x, y, args.accum)
        (loss / args.accum).backward()  # <-- FAULT
        running += loss.item()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: loss {running:.4f}")

moved = sum((p.detach() - s).pow(2).sum() for p, s in zip(model.parameters(), start)).sqrt()
print(f"RESULT loss={running:.4f} distance={moved:.4f}")
