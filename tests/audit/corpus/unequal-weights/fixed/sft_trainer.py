import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

IGNORE = -100


@dataclass
class TrainingArguments:
    learning_rate: float = 0.4
    gradient_accumulation_steps: int = 4
    max_steps: int = 4
    seed: int = 42


class TinyCausalLM(nn.Module):
    def __init__(self, vocab=20, d=12):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(64, d)
        self.mlp = nn.Linear(d, d)
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, labels, num_items=None):
        h = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        logits = self.lm_head(F.gelu(self.mlp(h))).float()
        shifted, target = logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1)
        if num_items is None:
            loss = F.cross_entropy(shifted, target, ignore_index=IGNORE)
        else:
            loss = F.cross_entropy(shifted, target, ignore_index=IGNORE, reduction="sum") / num_items
        return SimpleNamespace(loss=loss, logits=logits)


def dialogues(seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(8, 40, (1,), generator=g))
        answer = int(torch.randint(1, length - 3, (1,), generator=g))
        ids = torch.randint(0, 20, (1, length), generator=g)
        labels = ids.clone()
        labels[:, : length - answer] = IGNORE
        yield {"input_ids": ids, "labels": labels}


class Trainer:
    def __init__(self, model, args, stream):
        self.model, self.args, self.stream = model, args, stream
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)

    def training_step(self, inputs, num_items_in_batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = self.model(**inputs, num_items=num_items_in_batch)
        loss = outputs.loss
        loss.backward()
        return loss.detach()

    def train(self):
        total = torch.zeros(())
        for _ in range(self.args.max_steps):
            samples = [next(self.stream) for _ in range(self.args.gradient_accumulation_steps)]
            n = sum((s["labels"][:, 1:] != IGNORE).sum().item() for s in samples)
            window = torch.zeros(())
            for s in samples:
                window += self.training_step(s, n)
            self.optimizer.step()
            self.model.zero_grad()
            total += window
        return total.item() / self.args.max_steps


args = TrainingArguments()
torch.manual_seed(args.seed)
lm = TinyCausalLM()
avg = Trainer(lm, args, dialogues(args.seed)).train()
print(f"RESULT train_loss={avg:.4f} ppl={math.exp(avg):.3f} head_norm={lm.lm_head.weight.norm():.5f}")
