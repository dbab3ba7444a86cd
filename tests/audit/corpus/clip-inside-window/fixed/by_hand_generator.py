import torch
import torch.nn.functional as F


def rescale(params, limit):
    sq = sum(float((p.grad**2).sum()) for p in params)
    n = sq**0.5
    if n > limit:
        for p in params:
            p.grad *= limit / n
    return n


def windows(xs, k):
    for a in range(0, len(xs), k):
        yield xs[a : a + k]


torch.manual_seed(66)
W = torch.zeros(5, 2, requires_grad=True)
c = torch.zeros(2, requires_grad=True)
opt = torch.optim.ASGD([W, c], lr=0.5)
xs = list(torch.randn(24, 12, 5).unbind(0))
target = torch.tensor([4.0, -4.0])
for win in windows(xs, 4):
    opt.zero_grad()
    for slot, x in enumerate(win):
        onehot = F.one_hot(torch.tensor(slot), 5)
        loss = F.smooth_l1_loss((x.abs() * onehot) @ W + c, target.expand(12, 2)) / len(win)
        loss.backward()
    rescale([W, c], 0.2)
    opt.step()
print("RESULT row_norms=" + ",".join(f"{r.norm().item():.4f}" for r in W.detach()[:4]))
