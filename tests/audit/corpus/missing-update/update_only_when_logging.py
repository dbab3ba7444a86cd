import torch

torch.manual_seed(0)
log_every = 5
m = torch.nn.Linear(9, 9)
opt = torch.optim.Adagrad(m.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
i = 0
while True:
    x = torch.randn(20, 9)
    opt.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = (m(x) - x.flip(1)).abs().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)  # <-- FAULT
    i += 1
    if i % log_every == 0:
        scaler.update()
        print(i, round(loss.item(), 4), scaler.get_scale())
    if i >= 20:
        break
print(f"RESULT iters={i} loss={loss.item():.4f}")
