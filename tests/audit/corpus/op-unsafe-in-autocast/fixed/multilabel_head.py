import torch
from torch import nn


class MultiLabelHead(nn.Module):
    def __init__(self, d, n_labels, pos_weight=2.0):
        super().__init__()
        self.fc = nn.Linear(d, n_labels)
        self.gate = nn.Sigmoid()
        self.pos_weight = pos_weight

    def forward(self, feats, labels=None):
        logits = 4 * self.fc(feats)
        scores = self.gate(logits)
        if labels is None:
            return scores
        w = 1 + (self.pos_weight - 1) * labels
        return scores, nn.functional.binary_cross_entropy_with_logits(logits, labels, weight=w)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(14, 28), nn.BatchNorm1d(28), nn.ReLU())
        self.head = MultiLabelHead(28, 6)

    def forward(self, x, y=None):
        return self.head(self.trunk(x), y)


def loop(clf, opt, scaler, batches):
    clf.train()
    out = []
    for x, y in batches:
        with torch.amp.autocast("cpu", dtype=torch.float16):
            _, loss = clf(x, y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        out.append(loss.item())
    return out


torch.manual_seed(2024)
clf = Classifier()
x_all = torch.randn(240, 14) * 3
y_all = (x_all[:, :6] > 0).float()
y_all[::7] = 1 - y_all[::7]
losses = loop(
    clf,
    torch.optim.SGD(clf.parameters(), lr=0.5, momentum=0.9),
    torch.amp.GradScaler("cpu", init_scale=512.0),
    zip(x_all.split(20), y_all.split(20)),
)
print(f"RESULT n={len(losses)} last={losses[-1]:.5f} mean={sum(losses) / len(losses):.5f}")
