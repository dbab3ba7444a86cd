import torch
import torch.nn as nn

torch.manual_seed(1)
table = nn.Embedding(50, 8)
mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
sparse_opt = torch.optim.SGD(table.parameters(), lr=0.5)
dense_opt = torch.optim.AdamW(mlp.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)

truth = torch.randn(50)
for _ in range(25):
    idx = torch.randint(0, 50, (64,))
    sparse_opt.zero_grad()
    dense_opt.zero_grad()
    with torch.autocast("cpu", torch.float16):
        out = mlp(table(idx)).squeeze(-1)
        loss = nn.functional.mse_loss(out, truth[idx])
    scaler.scale(loss).backward()
    sparse_opt.step()  # <-- FAULT
    scaler.step(dense_opt)
    scaler.update()
print(f"RESULT emb_norm={table.weight.norm().item():.3f} loss={loss.item():.4f}")
