import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class TinyUNet(nn.Module):
    def __init__(self, n_channels=1, width=4):
        super().__init__()
        self.inc = DoubleConv(n_channels, width)
        self.down = nn.Sequential(nn.MaxPool2d(2), DoubleConv(width, 2 * width))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = DoubleConv(2 * width, width)
        self.outc = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.up(self.down(x1))
        return self.outc(self.dec(torch.cat([x1, x2], dim=1)))


def dice_loss(prob, target, eps=1e-6):
    inter = 2 * (prob * target).sum(dim=(-1, -2))
    sets = prob.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    return 1 - ((inter + eps) / (sets + eps)).mean()


@torch.inference_mode()
def evaluate(net, loader, device, amp):
    net.eval()
    score = 0.0
    with torch.autocast(device, dtype=torch.float16, enabled=amp):
        for image, mask in loader:
            pred = (torch.sigmoid(net(image).squeeze(1)) > 0.5).float()
            score += 1 - dice_loss(pred, mask).item()
    net.train()
    return score / max(len(loader), 1)


def make_blobs(n, size):
    g = torch.Generator().manual_seed(3)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.randint(2, size - 2, (n, 2), generator=g)
    mask = (((yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2) < 9).float()
    return TensorDataset((mask + 0.3 * torch.randn(n, size, size, generator=g)).unsqueeze(1), mask)


def train_net(net, device, epochs, batch_size, lr, amp, clip=1.0):
    data = make_blobs(40, 12)
    n_val = int(len(data) * 0.2)
    train_set, val_set = random_split(data, [len(data) - n_val, n_val], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, shuffle=True, batch_size=batch_size)
    val_loader = DataLoader(val_set, batch_size=batch_size)
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    grad_scaler = torch.amp.GradScaler(device, enabled=amp, init_scale=2.0**13)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(1, epochs + 1):
        net.train()
        epoch_loss = 0.0
        for batch in train_loader:
            image, mask = (t.to(device) for t in batch)
            with torch.autocast(device, dtype=torch.float16, enabled=amp):
                pred = net(image).squeeze(1)
                loss = criterion(pred, mask) + dice_loss(F.sigmoid(pred.float()), mask)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            epoch_loss += loss.item()
        logging.info("epoch %d loss %.4f", epoch, epoch_loss / len(train_loader))
    return epoch_loss / len(train_loader), evaluate(net, val_loader, device, amp)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", "-e", type=int, default=3)
    ap.add_argument("--batch-size", "-b", type=int, default=8)
    ap.add_argument("--learning-rate", "-l", type=float, default=0.1)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = TinyUNet()
    w0 = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    final, dice = train_net(model, "cpu", args.epochs, args.batch_size, args.learning_rate, not args.no_amp)
    moved = (nn.utils.parameters_to_vector(model.parameters()).detach() - w0).norm().item()
    print(f"RESULT loss={final:.4f} dice={dice:.4f} moved={moved:.3e}")
