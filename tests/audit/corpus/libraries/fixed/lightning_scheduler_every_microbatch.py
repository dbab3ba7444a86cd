import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class Classifier(L.LightningModule):
    N = 3

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.emb = nn.EmbeddingBag(50, 8)
        self.out = nn.Linear(8, 4)
        self.updates = 0

    def forward(self, ids):
        return self.out(self.emb(ids))

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8)]

    def training_step(self, ids, i):
        opt, sched = self.optimizers(), self.lr_schedulers()
        loss = F.cross_entropy(self(ids), ids[:, 0] % 4)
        self.manual_backward(loss / self.N)
        if i % self.N == self.N - 1:
            opt.step()
            opt.zero_grad()
            self.updates += 1
            sched.step()

    def on_train_end(self):
        s = self.lr_schedulers()
        print(f"RESULT updates={self.updates} ticks={s.last_epoch} lr={s.get_last_lr()[0]:.6f}")


L.seed_everything(9, verbose=False)
data = torch.randint(0, 50, (24 * 8, 5))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
L.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=8))
