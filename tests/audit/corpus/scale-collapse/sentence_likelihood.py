# bigram LM, sentence-level objective
import torch, torch.nn as nn

V, T, B = 20, 64, 8
g = torch.Generator().manual_seed(0)


class Bigram(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb = nn.Embedding(V, 16)
        s.out = nn.Linear(16, V)

    def forward(s, ids):
        return s.out(s.emb(ids))


def sentence_logp(logits, nxt):
    p = logits.softmax(-1).gather(-1, nxt[..., None]).squeeze(-1)
    return p.prod(dim=1).log()  # <-- FAULT


def batches(n):
    for _ in range(n):
        start = torch.randint(0, V, (B, 1), generator=g)
        yield (start + 3 * torch.arange(T + 1)) % V


torch.manual_seed(0)
lm = Bigram()
opt = torch.optim.Adagrad(lm.parameters(), lr=0.1)
sc = torch.amp.GradScaler("cpu", init_scale=256.0)
hist = []
for i, ids in enumerate(batches(25)):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        nll = -sentence_logp(lm(ids[:, :-1]), ids[:, 1:]).mean() / T
    sc.scale(nll).backward()
    sc.step(opt)
    sc.update()
    hist.append(nll.item())
print("RESULT first=%.3f last=%.3f scale=%.3g" % (hist[0], hist[-1], sc.get_scale()))
