import time
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class State:
    step: int = 0
    tokens: int = 0
    t0: float = field(default_factory=time.monotonic)

    def tok_per_s(self):
        return self.tokens / max(time.monotonic() - self.t0, 1e-9)


def build(vocab=24, d=16):
    return nn.Sequential(nn.Embedding(vocab, d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, vocab))


def step(model, opt, scaler, ids, state):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    scaler.scale(loss).backward()
    s = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if scaler.get_scale() >= s:
        state.step += 1
    state.tokens += ids[:, 1:].numel()  # <-- FAULT


torch.manual_seed(64)
model = build()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
state = State()
TOKEN_BUDGET = 24 * 96
while state.tokens < TOKEN_BUDGET:
    step(model, opt, scaler, torch.randint(0, 24, (8, 13)), state)
print(f"{state.tok_per_s():.0f} trained tokens/s")
print(f"RESULT trained_tokens={state.tokens} updates={state.step} tokens_per_update={state.tokens / state.step:.1f}")
