import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.head = nn.Conv2d(1, ch, 3, padding=1)
        self.body = nn.Conv2d(ch, ch, 3, padding=1)
        self.tail = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        h = F.relu(self.head(x))
        return x + self.tail(h + F.relu(self.body(h)))


def fit(net, amp_dtype, steps=10):
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=1e-13)
    zeros = count = 0
    for _ in range(steps):
        clean = torch.rand(2, 1, 12, 12)
        noisy = clean + 1e-3 * torch.randn_like(clean)
        with torch.autocast("cpu", dtype=amp_dtype):
            rec = net(noisy)
        # reflectance scale
        loss = F.mse_loss(rec.float() * 5e-3, clean * 5e-3)
        opt.zero_grad()
        loss.backward()  # <-- FAULT
        zeros += sum((p.grad == 0).sum().item() for p in net.parameters())
        count += sum(p.numel() for p in net.parameters())
        opt.step()
    return zeros / count, loss.item()


torch.manual_seed(71)
lost, final = fit(Denoiser(), torch.float16)
print(f"RESULT lost_gradients={lost:.4f} loss={final:.3e}")
