import torch
import torch.nn.functional as F
from torch import nn

enc = head = None


def encode(img):
    with torch.no_grad():  # <-- FAULT
        z = enc(img)
    return F.normalize(z.float().flatten(1), dim=1)


def main():
    global enc, head
    torch.manual_seed(19)
    enc = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 6, 3))
    head = nn.Linear(6, 3)
    opts = [torch.optim.AdamW(enc.parameters(), lr=1e-3), torch.optim.AdamW(head.parameters(), lr=1e-2)]
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for n in range(8):
        img = torch.randn(10, 1, 7, 7)
        lab = torch.randint(0, 3, (10,))
        for o in opts:
            o.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(head(encode(img)), lab)
        scaler.scale(loss).backward()
        for o in reversed(opts):
            scaler.step(o)
        scaler.update()
    print(f"RESULT n={n + 1} loss={loss.item():.4f}")


main()
