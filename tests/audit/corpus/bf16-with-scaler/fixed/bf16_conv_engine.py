import torch
import torch.nn.functional as F
from torch import nn


class Engine:
    def __init__(self, net, optimizer, scaler=None):
        self.net, self.optimizer, self.scaler = net, optimizer, scaler
        self.count = 0

    def step(self, batch):
        img, lab = batch
        loss = F.cross_entropy(self.net(img.to(torch.bfloat16)).float(), lab)
        self.optimizer.zero_grad()
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.count += 1
        return loss.detach()


class Net(nn.Module):
    def __init__(self, c=6, k=4):
        super().__init__()
        self.c1 = nn.Conv2d(3, c, 3, stride=2)
        self.c2 = nn.Conv2d(c, c, 3)
        self.fc = nn.Linear(c, k)

    def forward(self, x):
        x = F.relu(self.c2(F.relu(self.c1(x))))
        return self.fc(x.mean((2, 3)))


torch.manual_seed(9)
net = Net().to(torch.bfloat16)
eng = Engine(
    net,
    torch.optim.SGD(net.parameters(), lr=1.2),
)
for i in range(12):
    y = torch.randint(0, 4, (16,))
    x = torch.randn(16, 3, 9, 9) * 0.2 + y.view(-1, 1, 1, 1) * 0.4
    last = eng.step((x, y))
print(f"RESULT n={eng.count} loss={last.item():.3f} scale={eng.scaler.get_scale() if eng.scaler else None}")
