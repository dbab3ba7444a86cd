import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(L.LightningModule):
    def __init__(self, accumulate=4):
        super().__init__()
        self.automatic_optimization = False
        self.accumulate = accumulate
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        self.norms = []

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        loss = nn.functional.mse_loss(self.net(x), y)
        self.manual_backward(loss)  # <-- FAULT
        if (batch_idx + 1) % self.accumulate == 0:
            self.norms.append(nn.utils.get_total_norm([p.grad for p in self.parameters()]).item())
            self.clip_gradients(opt, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt.step()
            opt.zero_grad()


L.seed_everything(8, verbose=False)
x = torch.randn(96, 6)
model = Regressor()
trainer = L.Trainer(
    accelerator="cpu",
    max_epochs=1,
    precision="bf16-mixed",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, x.mean(1, keepdim=True)), batch_size=8))
print("RESULT norms=" + ",".join(f"{n:.4f}" for n in model.norms))
