import torch
from torch import nn

torch.manual_seed(3)


def make_blobs(n):
    imgs = torch.randn(n, 1, 8, 8) * 0.1
    labels = torch.arange(n) % 4
    for i, c in enumerate(labels):
        r, k = divmod(int(c), 2)
        imgs[i, 0, r * 4 : r * 4 + 4, k * 4 : k * 4 + 4] += 1.0
    return imgs, labels


net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(4, 8, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(32, 4),
)
w0 = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
amp = torch.amp.GradScaler("cpu", init_scale=2**12)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

epoch = 0
while epoch < 10:
    imgs, labels = make_blobs(16)
    sgd.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        out = net(imgs)
        loss = criterion(out, labels)
    amp.scale(loss).backward()
    amp.unscale_(sgd)
    torch.nn.utils.clip_grad_value_(net.parameters(), clip_value=0.1)
    amp.step(sgd)
    amp.update()
    epoch += 1

moved = (nn.utils.parameters_to_vector(net.parameters()) - w0).norm().item()
print(f"RESULT loss={loss.item():.4f} moved={moved:.3e}")
