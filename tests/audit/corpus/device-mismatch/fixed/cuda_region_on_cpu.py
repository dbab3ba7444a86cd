import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.EmbeddingBag(50, 12, mode="mean"), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu")
seen = set()
model[1].register_forward_hook(lambda mod, inp, out: seen.add(str(out.dtype).removeprefix("torch.")))


def run_epoch(n_batches):
    total = 0.0
    for _ in range(n_batches):
        docs = torch.randint(0, 50, (16, 7))
        label = (docs.float().mean(1) > 25).long()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(docs), label)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total / n_batches


avg = [run_epoch(6) for _ in range(2)]
print(f"RESULT avg_loss={avg[-1]:.4f} activations={'/'.join(sorted(seen))} scale={scaler.get_scale():.0f}")
