import torch
from torch import nn


class LabelAttention(nn.Module):
    def __init__(self, vocab, dim, labels):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.label = nn.Parameter(torch.randn(labels, dim) * 0.2)
        self.out = nn.Linear(dim, 1)

    def forward(self, ids):
        h = self.emb(ids)
        w = (h @ self.label.t()).softmax(1)
        doc = w.transpose(1, 2).to(h.dtype) @ h
        return torch.sigmoid(12 * self.out(doc).squeeze(-1))


class Learner:
    def __init__(self, model, loss_func, lr, amp_dtype=torch.float16):
        self.model, self.loss_func, self.amp_dtype = model, loss_func, amp_dtype
        self.opt = torch.optim.Adamax(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.updates = 0

    def one_batch(self, xb, yb):
        with torch.autocast("cpu", dtype=self.amp_dtype):
            pred = self.model(xb)
            loss = self.loss_func(pred.float(), yb)  # <-- FAULT
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        old = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.updates += self.scaler.get_scale() >= old
        return loss.item()


def docs(n, bs=16, vocab=20, labels=5):
    g = torch.Generator().manual_seed(6)
    for _ in range(n):
        ids = torch.randint(0, vocab, (bs, 7), generator=g)
        yield ids, torch.stack([(ids % labels == j).any(1) for j in range(labels)], 1).float()


def main():
    torch.manual_seed(6)
    learner = Learner(LabelAttention(20, 12, 5), nn.BCELoss(), lr=0.05)
    with torch.no_grad():
        learner.model.emb.weight.mul_(2.0)
    seen = [learner.one_batch(x, y) for x, y in docs(24)]
    print(f"RESULT updates={learner.updates} first={seen[0]:.4f} last={seen[-1]:.4f}")


if __name__ == "__main__":
    main()
