import lightning as L
import torch
from torch import nn
from torch.nn.functional import softplus


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g = nn.Linear(3, 2)
        self.d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters(), 1e-3), torch.optim.Adam(self.d.parameters(), 4e-3)

    def training_step(self, real, _):
        og, od = self.optimizers()
        fake = self.g(torch.randn(len(real), 3))

        self.toggle_optimizer(od)
        loss_d = softplus(-self.d(real)).mean() + softplus(self.d(fake.detach())).mean()
        od.zero_grad()
        self.manual_backward(loss_d)
        od.step()
        self.untoggle_optimizer(od)

        og.zero_grad()
        loss_g = softplus(-self.d(fake)).mean()
        self.manual_backward(loss_g)
        og.step()
        self.last = loss_d.item(), loss_g.item()


L.seed_everything(11, verbose=False)
flags = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
gan = GAN()
L.Trainer(accelerator="cpu", max_epochs=2, **flags).fit(gan, torch.utils.data.DataLoader(torch.randn(80, 2) + 1, batch_size=16))
print("RESULT d={:.4f} g={:.4f}".format(*gan.last))
