import torch, torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader

torch.manual_seed(11)
bs = 8
accum_iter = 2
epochs = 2

N = 96
cls = torch.randint(0, 6, (N,))
centers = torch.randn(6, 10) * 2
A = centers[cls] + 0.9 * torch.randn(N, 10)
P = centers[cls] + 0.9 * torch.randn(N, 10)
Ng = centers[(cls + 1) % 6] + 0.9 * torch.randn(N, 10)
train_dl = DataLoader(TensorDataset(A, P, Ng), batch_size=bs, shuffle=True)

net = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 6))
w0 = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
criterion = nn.TripletMarginLoss(margin=4.0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8, nesterov=True)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

for ep in range(epochs):
    for batch_idx, (a, p, n) in enumerate(train_dl):
        with torch.autocast("cpu", dtype=torch.float16):
            ea, ep_, en = net(a), net(p), net(n)
            loss = criterion(ea.float(), ep_.float(), en.float())
        # normalize loss to account for batch accumulation
        loss = loss / accum_iter
        scaler.scale(loss).backward()
        # weights update
        if ((batch_idx + 1) % accum_iter == 0) or (batch_idx + 1 == len(train_dl)):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

w1 = nn.utils.parameters_to_vector(net.parameters()).detach()
with torch.no_grad():
    final = criterion(net(A), net(P), net(Ng))
print(f"RESULT travelled={(w1 - w0).norm():.4f} triplet={final:.4f}")
