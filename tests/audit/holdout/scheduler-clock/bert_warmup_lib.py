import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


class TinyBert(nn.Module):
    def __init__(self, vocab=24, d=12, t=8):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(t, d)
        self.norm = nn.LayerNorm(d)
        self.attn_qkv, self.attn_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.decoder = nn.Linear(d, vocab)

    def forward(self, ids):
        h = self.norm(self.tok(ids) + self.pos.weight)
        q, k, v = self.attn_qkv(h).chunk(3, -1)
        a = torch.softmax(q @ k.transpose(1, 2) / q.size(-1) ** 0.5, -1)
        return self.decoder(h + self.attn_out(a.to(v.dtype) @ v))


def linear_warmup(optimizer, warmup, total):
    def factor(n):
        if n < warmup:
            return (n + 1) / (warmup + 1)
        return max(0.0, (total - n) / max(1, total - warmup))

    return LambdaLR(optimizer, factor)


def mlm_batches(seed, vocab=24, t=8, bs=6):
    g = torch.Generator().manual_seed(seed)
    while True:
        ids = (torch.randint(2, vocab, (bs, 1), generator=g) + torch.arange(t)) % (vocab - 2) + 2
        labels = torch.full_like(ids, -100)
        cols = torch.tensor([1, 5])
        labels[:, cols] = ids[:, cols]
        ids = ids.clone()
        ids[:, cols] = 1
        yield ids, labels
