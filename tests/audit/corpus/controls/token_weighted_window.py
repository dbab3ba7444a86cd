import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
VOCAB, IGNORE = 23, -100


class LM(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.mix = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        return self.head(self.mix(self.tok(ids))[0])


def sample():
    ids = torch.randint(0, VOCAB, (3, 9))
    labels = ids.roll(-1, 1)
    labels[:, int(torch.randint(2, 9, (1,))) :] = IGNORE
    return ids, labels


lm = LM()
adam = torch.optim.AdamW(lm.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
for _ in range(6):
    window = [sample() for _ in range(5)]
    weights = [(lab != IGNORE).sum().item() for _, lab in window]
    total = sum(weights)
    report = 0.0
    for (ids, lab), w in zip(window, weights, strict=True):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = lm(ids)
        mean = F.cross_entropy(logits.float().transpose(1, 2), lab, ignore_index=IGNORE)
        scaler.scale(mean * (w / total)).backward()
        report += mean.item() * w / total
    scaler.unscale_(adam)
    nn.utils.clip_grad_norm_(lm.parameters(), 0.5)
    scaler.step(adam)
    scaler.update()
    adam.zero_grad(set_to_none=False)
print(f"RESULT nll={report:.4f}")
