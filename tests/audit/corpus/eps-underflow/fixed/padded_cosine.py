import torch
from torch import nn


def l2norm(x):
    return x / (x.norm(dim=-1, keepdim=True) + 1e-4)


class SetMatcher(nn.Module):
    def __init__(self, d=10, h=16):
        super().__init__()
        self.proj = nn.Linear(d, h, bias=False)
        self.temp = nn.Parameter(torch.tensor(4.0))

    def forward(self, items, query):
        # (B, N, d), zero rows are padding
        sim = l2norm(self.proj(items)) @ l2norm(self.proj(query)).unsqueeze(-1)
        return self.temp * sim.squeeze(-1)


torch.manual_seed(31)
model = SetMatcher()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
n_ok = 0
for step in range(20):
    items = torch.randn(8, 6, 10)
    items[:, 4:] = 0.0
    gold = torch.randint(0, 4, (8,))
    query = items[torch.arange(8), gold] + 0.3 * torch.randn(8, 10)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(items, query)[:, :4], gold)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    s = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    n_ok += scaler.get_scale() == s
print(f"RESULT loss={loss.item():.4f} ok={n_ok}/20 scale={scaler.get_scale():.3g}")
