import torch
import torch.nn as nn


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(True), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU(True)
        )

    def forward(self, x):
        return self.net(x)


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = DoubleConv(1, 4)
        self.mid = DoubleConv(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.up(self.mid(nn.functional.max_pool2d(a, 2)))
        return self.out(torch.cat([a, b], 1))


def train_net(net, device, epochs=1, amp=True):
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9)
    grad_scaler = torch.amp.GradScaler(device, enabled=amp)
    global_step = 0
    for epoch in range(epochs):
        for _ in range(6):
            images = torch.rand(2, 1, 8, 8)
            masks = (images > 0.5).float()
            with torch.autocast(device, dtype=torch.float16, enabled=amp):
                pred = net(images)
                loss = nn.functional.binary_cross_entropy_with_logits(pred.float(), masks)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
            global_step += 1
    return global_step, loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cpu"
    net = TinyUNet().to(device)

    steps, loss = train_net(net, device)
    print(f"RESULT global_step={steps} loss={loss:.4f}")
