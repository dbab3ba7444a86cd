import torch
from torch import nn

torch.manual_seed(0)


class FGM:
    """adversarial training on the embeddings"""

    def __init__(self, model):
        self.model, self.backup = model, {}

    def attack(self, epsilon=0.5, name="emb."):
        for n, p in self.model.named_parameters():
            if name in n:
                self.backup[n] = p.data.clone()
                norm = torch.norm(p.grad)
                if norm != 0:
                    p.data.add_(epsilon * p.grad / norm)

    def restore(self):
        for n, p in self.model.named_parameters():
            if n in self.backup:
                p.data = self.backup[n]
        self.backup = {}


class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        self.fc = nn.Linear(16, 3)

    def forward(self, ids):
        return self.fc(self.emb(ids).mean(1))


model = Clf()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
fgm = FGM(model)
for it in range(10):
    ids = torch.randint(0, 30, (8, 7))
    y = ids[:, 0] % 3
    loss = nn.functional.cross_entropy(model(ids), y)
    loss.backward()
    fgm.attack()
    loss_adv = nn.functional.cross_entropy(model(ids), y)
    loss_adv.backward()
    fgm.restore()
    opt.step()
    opt.zero_grad()
print("RESULT", loss.item(), loss_adv.item())
