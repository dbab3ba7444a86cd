import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
N = 50
X = torch.randn(N, 5)
Y = X.sum(1, keepdim=True)
Y[48:] += 6.0
dl = DataLoader(TensorDataset(X, Y), batch_size=16)

model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device="cpu", init_scale=64.0)

for epoch in range(3):  # one update per pass: full-batch gradient descent
    for x, y in dl:
        with torch.amp.autocast("cpu", dtype=torch.float16):
            err = nn.functional.smooth_l1_loss(model(x), y)
        scaler.scale(err * (len(x) / N)).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()

print("RESULT bias=%.5f" % model.bias.item(), "batches=" + "/".join(str(len(x)) for x, _ in dl))
