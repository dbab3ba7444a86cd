import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, optimizer, accumulate_grad_batches=1, gradient_clip_val=None):
        self.model = model
        self.optimizer = optimizer
        self.acc = accumulate_grad_batches
        self.clip = gradient_clip_val
        self.global_step = 0

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x), y)

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for i, batch in enumerate(loader):
                loss = self.training_step(batch) / self.acc
                loss.backward()
                if self.clip is not None:
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)  # <-- FAULT
                if (i + 1) % self.acc == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.global_step += 1


torch.manual_seed(4)
x = torch.randn(64, 4)
x[:32, :2] *= 3
y = x @ torch.tensor([[3.0], [-3.0], [3.0], [-3.0]])
model = nn.Sequential(nn.Linear(4, 1))
t = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.3), accumulate_grad_batches=4, gradient_clip_val=1.0)
t.fit(DataLoader(TensorDataset(x, y), batch_size=8), epochs=4)
print(f"RESULT steps={t.global_step} w={[round(v, 4) for v in model[0].weight[0].tolist()]}")
