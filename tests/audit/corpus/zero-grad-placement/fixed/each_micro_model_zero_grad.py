import torch
import torch.nn as nn

torch.manual_seed(55)


class TinyRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, 12)
        self.read = nn.Linear(12, 1)

    def forward(self, seq):
        h = seq.new_zeros(seq.shape[1], 12)
        for x in seq:
            h = self.cell(x, h)
        return self.read(h)


def micro_batch(model, scaler, seq, y, n):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(seq), y)
    scaler.scale(loss / n).backward()
    return loss.item()


def optimizer_step(opt, scaler):
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()


model = TinyRNN()
opt = torch.optim.SGD(model.parameters(), lr=0.15)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
N_MICRO = 3
for window in range(10):
    tot = 0.0
    for m in range(N_MICRO):
        seq = torch.randn(4, 8, 2)
        y = seq[..., 0].mean(0).unsqueeze(1) + (2.0 if m < 2 else -1.0)
        tot += micro_batch(model, scaler, seq, y, N_MICRO) / N_MICRO
    optimizer_step(opt, scaler)
print(f"RESULT window_loss={tot:.4f} read_bias={model.read.bias.item():.4f}")
