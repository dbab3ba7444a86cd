import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
X = torch.randn(96, 4)
Y = (X[:, :1] > 0).float()
dl = DataLoader(TensorDataset(X, Y), batch_size=24, shuffle=True)
net = nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
swa, swalr = AveragedModel(net), SWALR(opt, swa_lr=0.02, anneal_epochs=2)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for epoch in range(7):
    for x, y in dl:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    if epoch >= 4:
        swa.update_parameters(net)
        swalr.step()
    else:
        cosine.step()
update_bn(dl, swa)
swa.eval()
with torch.no_grad():
    print(f"RESULT swa_loss={nn.functional.binary_cross_entropy_with_logits(swa(X), Y).item():.4f}")
