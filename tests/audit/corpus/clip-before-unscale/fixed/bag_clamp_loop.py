# sentiment toy, after the old pytorch tutorial
import torch, torch.nn as nn

torch.manual_seed(7)
V, E, H, T, B = 30, 8, 16, 7, 16
CLIP = 0.25


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(V, E, mode="mean")
        self.fc1 = nn.Linear(E, H)
        self.fc2 = nn.Linear(H, 1)

    def forward(self, tok):
        return self.fc2(torch.tanh(self.fc1(self.embed(tok)))).squeeze(-1)


def train(net, optimizer, scaler, n_iter):
    net.train()
    for it in range(n_iter):
        tok = torch.randint(0, V, (B, T))
        y = (tok < V // 2).float().mean(1).gt(0.5).float()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logit = net(tok)
        loss = nn.functional.binary_cross_entropy_with_logits(logit.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for p in net.parameters():
            if p.grad is not None:
                p.grad.data.clamp_(-CLIP, CLIP)
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


net = Net()
before = net.fc1.weight.detach().clone()
final = train(net, torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.8), torch.amp.GradScaler("cpu", init_scale=2.0**14), 40)
print("RESULT", "loss", round(final, 4), "dW", f"{(net.fc1.weight - before).abs().mean().item():.2e}")
