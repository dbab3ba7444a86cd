import copy
import tempfile

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class PriceConfig(PretrainedConfig):
    model_type = "price"


class PriceModel(PreTrainedModel):
    config_class = PriceConfig

    def __init__(self, config):
        super().__init__(config)
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.3)
            nn.init.zeros_(module.bias)

    def forward(self, x, labels=None):
        y = self.net(x)
        return {"loss": nn.functional.mse_loss(y.float(), labels), "logits": y}


class EmaCallback(TrainerCallback):
    def __init__(self, decay=0.9):
        self.decay, self.shadow, self.updates = decay, None, 0

    def on_train_begin(self, args, state, control, model=None, **kw):
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def blend(self, model):
        self.updates += 1
        for s, p in zip(self.shadow.parameters(), model.parameters(), strict=True):
            s.lerp_(p, 1 - self.decay)

    def on_substep_end(self, args, state, control, model=None, **kw):
        self.blend(model)  # <-- FAULT

    def on_step_end(self, args, state, control, model=None, **kw):
        self.blend(model)


set_seed(1)
rows = [{"x": x, "labels": x[:1] * x[1:2]} for x in torch.randn(96, 4)]
ema = EmaCallback()
with tempfile.TemporaryDirectory() as d:
    args = TrainingArguments(
        output_dir=d,
        use_cpu=True,
        bf16=True,
        num_train_epochs=2,
        per_device_train_batch_size=6,
        gradient_accumulation_steps=4,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    t = Trainer(model=PriceModel(PriceConfig()), args=args, train_dataset=rows, callbacks=[ema])
    t.train()
print(f"RESULT optimizer_steps={t.state.global_step} ema_updates={ema.updates}")
