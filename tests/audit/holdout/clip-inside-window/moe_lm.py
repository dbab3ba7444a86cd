import torch
import torch.nn.functional as F
from moe_lm_lib import Stream, summarize
from torch import nn


class Experts(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.w1 = nn.Parameter(torch.randn(n, d, 2 * d) / d**0.5)
        self.w2 = nn.Parameter(torch.randn(n, 2 * d, d) / (2 * d) ** 0.5)

    def forward(self, x):
        g = self.gate(x).softmax(-1)
        h = torch.einsum("btd,ndh->btnh", x, self.w1)
        y = torch.einsum("btnh,nhd->btnd", F.relu(h).square(), self.w2)
        return (y * g.unsqueeze(-1)).sum(2)


class LM(nn.Module):
    def __init__(self, vocab=16, d=12, n=3):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.norm = nn.RMSNorm(d)
        self.moe = Experts(d, n)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids)
        return self.head(x + self.moe(self.norm(x)))


class Trainer:
    def __init__(self, model, accum=5, max_norm=0.2, lr=0.5):
        self.model, self.accum, self.max_norm = model, accum, max_norm
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.pending = 0
        self.norms = []

    def backward(self, ids, target):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), target.flatten())
        (loss / self.accum).backward()
        self.pending += 1
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # <-- FAULT
        if self.pending == self.accum:
            self.norms.append(norm.item())
            self.apply()
        return loss.item()

    def apply(self):
        self.opt.step()
        self.opt.zero_grad()
        self.pending = 0


def main():
    torch.manual_seed(3)
    model = LM()
    tr = Trainer(model)
    # the stream walks through sources in a fixed order, one source per micro-batch
    stream = Stream(sources=5, vocab=16, seed=8)
    losses = [tr.backward(*stream.next()) for _ in range(tr.accum * 6)]
    per_source = summarize(model, stream)
    print("train", f"{losses[0]:.3f} -> {losses[-1]:.3f}")
    print(f"RESULT updates={len(tr.norms)} per_source_loss={','.join(f'{v:.4f}' for v in per_source)}")


if __name__ == "__main__":
    main()
