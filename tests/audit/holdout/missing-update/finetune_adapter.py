import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)


class Adapter(nn.Module):
    def __init__(self, d, r):
        super().__init__()
        self.down, self.up = nn.Linear(d, r, bias=False), nn.Linear(r, d, bias=False)
        nn.init.normal_(self.up.weight, std=0.3)

    def forward(self, h):
        return h + self.up(F.silu(self.down(h)))


class Net(nn.Module):
    def __init__(self, n_tok=20, d=16, n_cls=3):
        super().__init__()
        self.emb = nn.EmbeddingBag(n_tok, d, mode="mean")
        self.block = nn.Linear(d, d)
        self.adapter = Adapter(d, 4)
        self.head = nn.Linear(d, n_cls)
        for p in [*self.emb.parameters(), *self.block.parameters()]:
            p.requires_grad_(False)

    def forward(self, ids):
        return self.head(self.adapter(torch.relu(self.block(self.emb(ids)))))


def get_data(n=96):
    ids = torch.randint(0, 20, (n, 6))
    return ids, (ids.sum(1) // 30).clamp(max=2)


def accuracy(net, ids, labels):
    net.eval()
    with torch.no_grad():
        acc = (net(ids).argmax(-1) == labels).float().mean().item()
    net.train()
    return acc


def train_step(net, opt, batch, amp=True):
    ids, labels = batch
    scaler = torch.amp.GradScaler("cpu", enabled=amp, init_scale=2.0**24)
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16, enabled=amp):
        loss = F.cross_entropy(net(ids) * 4, labels)
    scaler.scale(loss).backward()
    scaler.step(opt)  # <-- FAULT
    return loss.detach()


net = Net()
trainable = [p for p in net.parameters() if p.requires_grad]
before = [p.detach().clone() for p in trainable]
opt = torch.optim.AdamW(trainable, lr=2e-2)
ids, labels = get_data()
updates = 0
opt.register_step_post_hook(lambda *a: globals().__setitem__("updates", updates + 1))
for epoch in range(5):
    perm = torch.randperm(len(ids))
    for k in range(0, len(ids), 24):
        sel = perm[k : k + 24]
        loss = train_step(net, opt, (ids[sel], labels[sel]))
    print(f"epoch {epoch} loss {loss.item():.3f} acc {accuracy(net, ids, labels):.3f}")
delta = sum((p - q).norm().item() for p, q in zip(trainable, before, strict=True))
print(f"RESULT attempts=20 completed={updates} moved={delta:.4f} acc={accuracy(net, ids, labels):.3f}")
