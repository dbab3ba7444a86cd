import torch
import torch.nn.functional as F

from tabular_fit_lib import Columns, TabNet, harden, make_rows

SEED = 17
EPOCHS = 3
BATCH = 32


def snapshot(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def epoch_batches(rows, epoch):
    num, cat, y = rows
    g = torch.Generator().manual_seed(SEED + epoch)
    order = torch.randperm(len(y), generator=g)
    for at in range(0, len(y) - BATCH + 1, BATCH):
        pick = order[at : at + BATCH]
        yield num[pick], cat[pick], y[pick]


def main():
    torch.manual_seed(SEED)
    cols = Columns()
    model = harden(TabNet(cols))
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}], lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    rows = make_rows(cols, 192, 1)
    rows[0][100, 2] = float("nan")
    val = make_rows(cols, 64, 2)
    drift = 0.0
    for epoch in range(EPOCHS):
        model.train()
        running, seen = 0.0, 0
        for num, cat, y in epoch_batches(rows, epoch):
            before = snapshot(model)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type="cpu", dtype=torch.float16):
                out = model(num, cat)
            loss = F.huber_loss(out.float(), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if torch.isfinite(loss):
                running += loss.item() * len(y)
                seen += len(y)
            else:
                drift += (snapshot(model) - before).norm().item()
        model.eval()
        with torch.no_grad():
            err = F.l1_loss(model(val[0], val[1]), val[2]).item()
        print(f"epoch {epoch}: train {running / seen:.4f} val {err:.4f}")
    count = int(optimizer.state[decay[0]]["step"])
    print(f"RESULT adam_steps={count} drift_on_bad_batches={drift:.3e} scale={scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
