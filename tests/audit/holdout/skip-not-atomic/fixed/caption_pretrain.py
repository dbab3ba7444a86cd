from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

cfg = SimpleNamespace(vocab=24, dim=16, heads=2, ctx=10, steps=16, bs=8, lr=4e-3, wd=0.1, max_norm=1.0, warmup=4)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.img = nn.Linear(6, c.dim)
        self.attn = nn.MultiheadAttention(c.dim, c.heads, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(c.dim), nn.Linear(c.dim, 32), nn.GELU(), nn.Linear(32, c.dim))
        self.out = nn.Linear(c.dim, c.vocab)
        self.register_buffer("causal", torch.triu(torch.ones(c.ctx, c.ctx, dtype=torch.bool), 1))

    def forward(self, pix, ids):
        h = self.tok(ids) + self.img(pix).unsqueeze(1)
        a, _ = self.attn(h, h, h, attn_mask=self.causal, need_weights=False)
        h = h + a
        return self.out(h + self.ff(h))


def stream(c):
    g = torch.Generator().manual_seed(99)
    i = 0
    while True:
        ids = torch.randint(0, c.vocab, (c.bs, c.ctx + 1), generator=g)
        pix = torch.randn(c.bs, 6, generator=g)
        if i == 9:
            pix[2] = pix[2] / 0.0
        yield pix, ids[:, :-1], ids[:, 1:]
        i += 1


torch.manual_seed(1)
model = Decoder(cfg)
opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), weight_decay=cfg.wd)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, (k + 1) / cfg.warmup))
data = stream(cfg)
bad, slid = 0, 0.0
step = 0
while step < cfg.steps:
    pix, src, tgt = next(data)
    w0 = model.out.weight.detach().clone()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(pix, src)
        loss = cross_entropy(logits.float().flatten(0, 1), tgt.flatten())
    step += 1
    loss.backward()
    gn = nn.utils.clip_grad_norm_(model.parameters(), cfg.max_norm)
    good = bool(torch.isfinite(gn))
    if not good:
        bad += 1
        print(f"step {step}: bad gradient norm {gn.item()}")
    else:
        opt.step()
        sched.step()
    opt.zero_grad(set_to_none=True)
    if not good:
        slid += (model.out.weight.detach() - w0).norm().item()
    elif step % 5 == 0:
        print(f"step {step}: loss {loss.item():.3f} gnorm {gn.item():.3f} lr {sched.get_last_lr()[0]:.2e}")
k = int(opt.state[model.out.weight]["step"])
print(f"RESULT steps={step} bad={bad} adam_steps={k} ticks={sched.last_epoch} slid={slid:.3e}")
