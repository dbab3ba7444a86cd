import torch
from torch import nn


class Seq2One(nn.Module):
    def __init__(self, n_in=3, hid=12):
        super().__init__()
        self.cell = nn.RNNCell(n_in, hid)
        self.out = nn.Linear(hid, 1)

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.cell.hidden_size)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h.float())
            yield self.out(h)


torch.manual_seed(0)
rnn = Seq2One()
opt = torch.optim.SGD(rnn.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
crit = nn.MSELoss()
w = rnn.out.weight.detach().clone()
for epoch in range(5):
    x = torch.randn(8, 6, 3)
    run = x.sum(-1).cumsum(1)
    opt.zero_grad()
    losses = []
    with torch.autocast("cpu", dtype=torch.float16):
        for t, pred in enumerate(rnn(x)):
            losses.append(crit(pred.squeeze(-1), run[:, t]))
    loss = torch.stack(losses).mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT epoch={epoch} loss={loss.item():.4f} moved={(rnn.out.weight - w).abs().max().item():.4f}")
