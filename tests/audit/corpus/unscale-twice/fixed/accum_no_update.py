import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(92)
cfg = {"batch_size": 8, "grad_accum": 4, "max_grad_norm": 1.0, "epochs": 2, "lr": 3e-3}
ds = TensorDataset(torch.randn(64, 6), torch.randn(64, 2))
model = nn.Sequential(nn.Linear(6, 12), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.0)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
n_updates = 0
for epoch in range(cfg["epochs"]):
    for idx, (inp, tgt) in enumerate(DataLoader(ds, cfg["batch_size"], shuffle=True), start=1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inp), tgt) / cfg["grad_accum"]
        scaler.scale(loss).backward()
        if idx % cfg["grad_accum"] == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), cfg["max_grad_norm"])
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            n_updates += 1
print(f"RESULT updates={n_updates} loss={loss.item() * cfg['grad_accum']:.4f}")
