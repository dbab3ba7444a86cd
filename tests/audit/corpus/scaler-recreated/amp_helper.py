import torch
from amp_helper_lib import amp_step, forward_loss
from torch import nn

torch.manual_seed(62)
ranker = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
init = [p.detach().clone() for p in ranker.parameters()]
opt = torch.optim.Adadelta(ranker.parameters(), lr=1.0)
i = 0
while i < 20:
    docs = torch.randn(6, 8, 10)
    relevance = docs[..., 0] > docs[..., 1]
    loss = forward_loss(ranker, docs, relevance)
    amp_step(loss, opt)
    i += 1
moved = sum((p - q).abs().sum().item() for p, q in zip(ranker.parameters(), init))
print(f"RESULT moved={moved:.5f} loss={loss.item():.3f}")
