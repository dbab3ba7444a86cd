import torch
from torch import nn


class BagClassifier(nn.Module):
    def __init__(self, vocab=80, d=8, n_out=3):
        super().__init__()
        self.bag = nn.Embedding(vocab, d, sparse=True)
        self.fc = nn.Linear(d, n_out)

    def forward(self, tok):
        return self.fc(self.bag(tok).mean(1))


torch.manual_seed(0)
net = BagClassifier()
sparse_opt = torch.optim.SGD(net.bag.parameters(), lr=0.5)
dense_opt = torch.optim.Adam(net.fc.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
n = 0
for _ in range(10):
    tok = torch.randint(0, 80, (12, 5))
    y = tok[:, 0] % 3
    sparse_opt.zero_grad()
    dense_opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(tok), y)
    scaler.scale(loss).backward()
    for o in (dense_opt, sparse_opt):
        scaler.step(o)
    scaler.update()
    n += 1
print(f"RESULT updates={n} loss={loss.item():.4f}")
