import torch
from lr_groups_lib import build_loaders, param_groups_with_decay
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(2, 8, 5, stride=2)
        self.mix = nn.Conv1d(8, 12, 3)
        self.norm = nn.GroupNorm(3, 12)

    def forward(self, x):
        x = nn.functional.gelu(self.stem(x))
        return nn.functional.gelu(self.norm(self.mix(x))).mean(-1)


class Classifier(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(12, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


class Experiment:
    max_epochs = 3

    def __init__(self):
        self.grad_clip = {"backbone": 0.5, "head": 2.0}
        self.model = Classifier(3)
        self.optimizer = torch.optim.AdamW(param_groups_with_decay(self.model, lr=5e-3, head_mult=5.0))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
        self.train_loader, self.val_loader = build_loaders()
        self.iteration = 0

    def training_step(self, batch):
        x, y = batch
        with torch.autocast("cpu", dtype=torch.float16):
            return nn.functional.cross_entropy(self.model(x), y, label_smoothing=0.1)

    def optimizer_step(self, loss):
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        for name, limit in self.grad_clip.items():
            nn.utils.clip_grad_norm_(getattr(self.model, name).parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.iteration += 1

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        self.model.train()
        return hits / len(self.val_loader.dataset)

    def run(self):
        for _ in range(self.max_epochs):
            for batch in self.train_loader:
                loss = self.training_step(batch)
                self.optimizer_step(loss)
        return loss.item(), self.validate()


torch.manual_seed(4)
exp = Experiment()
try:
    final, acc = exp.run()
except RuntimeError:
    print(f"RESULT iterations={exp.iteration} val_acc={exp.validate():.3f}")
    raise
print(f"RESULT iterations={exp.iteration} val_acc={acc:.3f}")
