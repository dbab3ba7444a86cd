import torch
from speaker_centers_lib import CenterLoss, utterances
from torch import nn

ARGS = {"spk": 5, "feat": 12, "emb": 8, "steps": 30, "center_w": 2.0, "lr": 0.1, "lr_center": 0.5}


class XVector(nn.Module):
    def __init__(self, feat, emb, n_spk):
        super().__init__()
        self.tdnn1 = nn.Conv1d(feat, 16, 3, dilation=1)
        self.tdnn2 = nn.Conv1d(16, 16, 3, dilation=2)
        self.seg = nn.Linear(32, emb)
        self.cls = nn.Linear(emb, n_spk)

    def forward(self, x):
        h = torch.relu(self.tdnn2(torch.relu(self.tdnn1(x))))
        stats = torch.cat([h.mean(-1), h.float().var(-1).add(1e-5).sqrt().to(h.dtype)], -1)
        e = self.seg(stats)
        return e, self.cls(torch.relu(e))


def intra_class_spread(model, args):
    feats, spk = [], []
    with torch.no_grad():
        for x, y in utterances(args, 6, seed=99):
            feats.append(model(x)[0])
            spk.append(y)
    e, y = torch.cat(feats), torch.cat(spk)
    within = torch.stack([e[y == k].var(0).sum() for k in range(args["spk"])]).mean()
    return (within / e.var(0).sum()).item()


def train(args):
    torch.manual_seed(31)
    model = XVector(args["feat"], args["emb"], args["spk"])
    center = CenterLoss(args["spk"], args["emb"])
    opt = torch.optim.SGD(
        [
            {"params": model.parameters(), "lr": args["lr"], "momentum": 0.8},
            {"params": center.parameters(), "lr": args["lr_center"]},
        ],
        lr=args["lr"],
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for it, (x, y) in enumerate(utterances(args, args["steps"], seed=0)):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            emb, logits = model(x)
            ce = nn.functional.cross_entropy(logits, y)
        scaler.scale(ce).backward(retain_graph=True)
        c = center.backward(emb, y, weight=args["center_w"], scaler=scaler)
        scaler.step(opt)
        scaler.update()
        if it % 10 == 0:
            print(f"[{it:03d}] ce={ce.item():.3f} center={c:.3f}")
    return model, center, c


if __name__ == "__main__":
    model, center, c = train(ARGS)
    print(f"RESULT center_loss={c:.4f} spread={intra_class_spread(model, ARGS):.4f} centers={center.centers.norm().item():.4e}")
