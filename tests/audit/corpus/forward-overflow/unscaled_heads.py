from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Cfg:
    vocab: int = 24
    d: int = 32
    heads: int = 2
    iters: int = 12
    lr: float = 3e-4
    logit_gain: float = 40.0


class SelfAttention(nn.Module):
    def __init__(self, cfg: Cfg):
        super().__init__()
        self.h, self.dh = cfg.heads, cfg.d // cfg.heads
        self.qkv = nn.Linear(cfg.d, 3 * cfg.d)
        self.proj = nn.Linear(cfg.d, cfg.d)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
        att = torch.einsum("bhid,bhjd->bhij", q, k)  # <-- FAULT
        att = att * self.dh**-0.5
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        att = att.masked_fill(mask, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bhjd->bhid", att, v)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class LM(nn.Module):
    def __init__(self, cfg: Cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.d)
        self.ln = nn.LayerNorm(cfg.d)
        self.attn = SelfAttention(cfg)
        self.head = nn.Linear(cfg.d, cfg.vocab)
        nn.init.normal_(self.attn.qkv.weight[: 2 * cfg.d].detach(), std=1.0)
        self.attn.qkv.weight.data[: 2 * cfg.d] *= cfg.logit_gain
        self.attn.qkv.requires_grad_(False)

    def forward(self, ids):
        x = self.tok(ids)
        return self.head(x + self.attn(self.ln(x)))


def main(cfg: Cfg):
    torch.manual_seed(1337)
    lm = LM(cfg)
    opt = torch.optim.AdamW([p for p in lm.parameters() if p.requires_grad], lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    good = []
    opt.register_step_post_hook(lambda *_: good.append(True))
    for _ in range(cfg.iters):
        ids = torch.randint(0, cfg.vocab, (4, 13))
        with torch.autocast("cpu", dtype=torch.float16):
            logits = lm(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.reshape(-1, cfg.vocab), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    print(f"RESULT iters={cfg.iters} stepped={len(good)} loss={loss.item():.3f} scale={scaler.get_scale():.4g}")


main(Cfg())
