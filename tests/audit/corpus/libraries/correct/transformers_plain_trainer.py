import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(2)
config = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    num_labels=2,
)
rows = []
for _ in range(60):
    ids = torch.randint(1, 40, (8,))
    rows.append({"input_ids": ids, "labels": int(ids[0] > 20)})
with tempfile.TemporaryDirectory() as tmp:
    args = TrainingArguments(
        output_dir=tmp,
        use_cpu=True,
        bf16=True,
        per_device_train_batch_size=8,
        num_train_epochs=2,
        learning_rate=5e-3,
        warmup_steps=2,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=rows[:48], eval_dataset=rows[48:])
    trainer.train()
    metrics = trainer.evaluate()
print(f"RESULT steps={trainer.state.global_step} eval_loss={metrics['eval_loss']:.4f}")
