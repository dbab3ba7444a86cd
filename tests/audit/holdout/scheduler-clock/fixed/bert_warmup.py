import argparse
import logging

import torch
from bert_warmup_lib import TinyBert, linear_warmup, mlm_batches
from torch import nn

logger = logging.getLogger(__name__)


class Trainer:
    def __init__(self, args, model):
        self.args, self.model = args, model
        no_decay = ("bias", "norm")
        named = list(model.named_parameters())
        groups = [
            {"params": [p for n, p in named if not any(k in n for k in no_decay)], "weight_decay": 0.01},
            {"params": [p for n, p in named if any(k in n for k in no_decay)], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr)
        self.scheduler = linear_warmup(self.optimizer, args.warmup, args.max_steps)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        self.global_step = 0
        self.lrs = []

    def training_step(self, batch):
        self.model.train()
        ids, labels = batch
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(ids)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        loss = loss / self.args.gradient_accumulation_steps
        self.scaler.scale(loss).backward()
        return loss.detach()

    def train(self, loader):
        tr_loss = torch.zeros(())
        for step, batch in enumerate(loader):
            tr_loss += self.training_step(batch)
            if (step + 1) % self.args.gradient_accumulation_steps == 0:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                scale = self.scaler.get_scale()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                stepped = self.scaler.get_scale() >= scale
                self.optimizer.zero_grad()
                self.lrs.append(self.optimizer.param_groups[0]["lr"])
                self.global_step += stepped
                if stepped:
                    self.scheduler.step()
                logger.info("step %d loss %.4f lr %.2e", self.global_step, tr_loss / max(self.global_step, 1), self.lrs[-1])
            if self.global_step >= self.args.max_steps:
                break
        return tr_loss.item() / self.global_step


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=2e-2)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--max_steps", type=int, default=10)
    p.add_argument("--gradient_accumulation_steps", type=int, default=3)
    p.add_argument("--max_grad_norm", type=float, default=1.0)
    args = p.parse_args()
    torch.manual_seed(42)
    trainer = Trainer(args, TinyBert())
    loss = trainer.train(mlm_batches(seed=42))
    print(
        f"RESULT updates={trainer.global_step} ticks={trainer.scheduler.last_epoch} last_lr={trainer.lrs[-1]:.2e} loss={loss:.4f}"
    )


if __name__ == "__main__":
    main()
