import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

VOCAB = 31


class Tokens(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        ids = torch.randint(0, VOCAB, (12,), generator=g)
        labels = ids.clone()
        labels[0] = -100
        return {"input_ids": ids, "labels": labels}


class SmoothedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        out = model(input_ids=inputs["input_ids"])
        logits, target = out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(logits, target, label_smoothing=0.1)  # <-- FAULT
        return (loss, out) if return_outputs else loss


def main():
    set_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=1, n_head=2, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0
    )
    config.bos_token_id = config.eos_token_id = 0
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            use_cpu=True,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=4,
            max_steps=3,
            learning_rate=1e-3,
            logging_steps=1,
            max_grad_norm=1.0,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = SmoothedTrainer(model=model, args=args, train_dataset=Tokens())
        trainer.train()
    norms = [h["grad_norm"] for h in trainer.state.log_history if "grad_norm" in h]
    print("RESULT grad_norms=" + ",".join(f"{float(n):.4f}" for n in norms))


main()
