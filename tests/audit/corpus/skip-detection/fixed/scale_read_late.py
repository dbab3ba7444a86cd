import torch

torch.manual_seed(12)
IN, HID, OUT = 12, 40, 2
W1 = torch.nn.Parameter(torch.randn(IN, HID) / IN**0.5)
W2 = torch.nn.Parameter(torch.randn(HID, OUT) / HID**0.5)
opt = torch.optim.NAdam([W1, W2], lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21)
ledger = {"attempt": 0, "applied": 0, "skipped": 0}


def attempt(x, y):
    with torch.autocast("cpu", dtype=torch.float16):
        logit = torch.relu(x @ W1) @ W2
    loss = torch.nn.functional.multilabel_soft_margin_loss(logit.float(), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    s0 = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    ledger["attempt"] += 1
    if scaler.get_scale() < s0:
        ledger["skipped"] += 1
    else:
        ledger["applied"] += 1
    return loss.detach()


for _ in range(25):
    x = torch.randn(40, IN)
    attempt(x, (x[:, :OUT] > 0).float())
real = int(opt.state[W1]["step"])
print("RESULT " + " ".join(f"{k}={v}" for k, v in ledger.items()) + f" nadam_step={real}")
