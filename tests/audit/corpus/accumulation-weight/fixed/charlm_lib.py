import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and then the dog jumps back over the fox "
CHARS = sorted(set(TEXT))
IDS = torch.tensor([CHARS.index(c) for c in TEXT])


class CharModel(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, len(CHARS))

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.head(h)


def batches(seed, bs=4, length=12):
    g = torch.Generator().manual_seed(seed)
    while True:
        at = torch.randint(0, len(IDS) - length - 1, (bs,), generator=g)
        chunk = torch.stack([IDS[i : i + length + 1] for i in at.tolist()])
        yield chunk[:, :-1], chunk[:, 1:]


def lm_loss(model, x, y, grad_accum):
    logits = model(x)
    loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
    return loss / grad_accum
