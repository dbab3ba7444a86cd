import tempfile

import torch
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def masked_nll(outputs, labels, num_items_in_batch=None):
    logits = outputs.logits[:, :-1].float().flatten(0, 1)
    targets = labels[:, 1:].flatten()
    total = F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
    return total / (num_items_in_batch if num_items_in_batch is not None else (targets != -100).sum())


def row(i):
    g = torch.Generator().manual_seed(i)
    ids = torch.randint(1, 25, (10,), generator=g)
    labels = ids.clone()
    labels[0] = -100
    labels[int(torch.randint(3, 10, (1,), generator=g)) :] = -100
    return {"input_ids": ids, "labels": labels}


set_seed(3)
model = GPT2LMHeadModel(GPT2Config(vocab_size=25, n_positions=12, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.2, total_iters=6)
with tempfile.TemporaryDirectory() as tmp:
    args = TrainingArguments(
        tmp,
        use_cpu=True,
        max_steps=6,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=3,
        report_to="none",
        save_strategy="no",
        logging_steps=2,
        disable_tqdm=True,
    )
    tr = Trainer(model, args, train_dataset=[row(i) for i in range(54)], optimizers=(opt, sched), compute_loss_func=masked_nll)
    out = tr.train()
print(f"RESULT steps={out.global_step} ticks={sched.last_epoch}")
