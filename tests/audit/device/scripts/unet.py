# ruff: noqa: PLW2901, PLR0402 - written as such scripts are
"""A U-Net with the old torch.cuda.amp names, channels-last memory, RMSprop and a fallback when memory runs out."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class DoubleConv(nn.Sequential):
    def __init__(self, ins, outs):
        super().__init__(
            nn.Conv2d(ins, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs), nn.ReLU(inplace=True), nn.Conv2d(outs, outs, 1)
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc, self.down, self.up = DoubleConv(1, 4), DoubleConv(4, 8), nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.conv, self.out = DoubleConv(8, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        one = self.inc(x)
        two = self.down(F.max_pool2d(one, 2))
        return self.out(self.conv(torch.cat([one, self.up(two)], dim=1)))


def train_model(model, device, epochs=1, amp=True, gradient_clipping=1.0):
    images = torch.rand(10, 1, 8, 8)
    dataset = TensorDataset(images, (images[:, 0] > 0.5).long())
    train_set, _ = random_split(dataset, [8, 2], generator=torch.Generator().manual_seed(0))
    loader = DataLoader(train_set, shuffle=True, batch_size=2, num_workers=0, pin_memory=True)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    grad_scaler = torch.cuda.amp.GradScaler(enabled=amp)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        model.train()
        for image, mask in loader:
            image = image.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            mask = mask.to(device=device, dtype=torch.long)
            with torch.autocast(device.type if device.type != "mps" else "cpu", enabled=amp, dtype=torch.float16):
                loss = criterion(model(image), mask)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
        scheduler.step(-loss.detach().cpu().item())


if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = UNet()
    model = model.to(memory_format=torch.channels_last)
    model.to(device=device)
    try:
        train_model(model=model, device=device)
    except torch.cuda.OutOfMemoryError:  # CUDA only
        torch.cuda.empty_cache()  # CUDA only
        train_model(model=model, device=device, amp=False)  # CUDA only
    finally:
        torch.save(model.state_dict(), os.environ["OUT"])
