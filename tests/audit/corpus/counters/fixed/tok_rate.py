import torch
from tok_rate_lib import Packed, RateLogger
from torch import nn


class LM(nn.Module):
    def __init__(self, v, d=14):
        super().__init__()
        self.tok = nn.Embedding(v, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, v)

    def forward(self, ids):
        return self.out(self.gru(self.tok(ids))[0])


def optimize(lm, opt, window, scaler):
    total = sum(len(seq) - 1 for seq in window)
    nll = 0.0
    for seq in window:
        ids = seq[None]
        with torch.autocast("cpu", dtype=torch.float16):
            logits = lm(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits[0].float(), ids[0, 1:], reduction="sum") / total
        scaler.scale(loss).backward()
        nll += loss.item()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    return nll


torch.manual_seed(83)
corpus = Packed(vocab=20, per_window=4)
lm = LM(20)
opt = torch.optim.AdamW(lm.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
log = RateLogger()
for window in corpus.windows(6):
    with log.timed(window):
        nll = optimize(lm, opt, window, scaler)
print(f"{log.rate():.0f} tok/s  nll {nll:.3f}")
print(f"RESULT tokens_in={corpus.produced} tokens_counted={log.tokens}")
