import torch
from asr_epochs_lib import Meter, SpeechSet
from torch import nn
from torch.utils.data import DataLoader


class AcousticModel(nn.Module):
    def __init__(self, mels=8, d=16, vocab=6):
        super().__init__()
        self.front = nn.Conv1d(mels, d, 3, stride=2, padding=1)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.out = nn.Linear(d, vocab)

    def forward(self, x):
        h = torch.relu(self.front(x)).transpose(1, 2)
        return self.out(h + self.ff(h))


class Trainer:
    def __init__(self, conf):
        self.conf = conf
        self.model = AcousticModel()
        self.ctc = nn.CTCLoss(zero_infinity=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=conf["lr"])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.step = 0
        self.used = 0

    def loss(self, feats, targets, tlen):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(feats)
        logp = logits.float().log_softmax(-1).transpose(0, 1)
        ilen = torch.full((len(feats),), logp.size(0))
        return self.ctc(logp, targets, ilen, tlen)

    def train_epoch(self, loader, accum_grad):
        self.model.train()
        self.optimizer.zero_grad()
        meter, waiting = Meter(), 0
        for batch_idx, (feats, targets, tlen) in enumerate(loader):
            loss = self.loss(feats, targets, tlen)
            self.scaler.scale(loss / accum_grad).backward()
            waiting += len(feats)
            meter.add(loss.item())
            if (batch_idx + 1) % accum_grad == 0:  # <-- FAULT
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), self.conf["grad_clip"])
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
                self.step += 1
                self.used, waiting = self.used + waiting, 0
        return meter.mean()

    def cv(self, loader):
        self.model.eval()
        with torch.no_grad():
            return sum(self.loss(*b).item() for b in loader) / len(loader)


def main():
    conf = {"lr": 1e-2, "accum_grad": 4, "grad_clip": 5.0, "epochs": 4, "bs": 4}
    torch.manual_seed(777)
    train = DataLoader(SpeechSet(28, seed=0), batch_size=conf["bs"])
    dev = DataLoader(SpeechSet(8, seed=1), batch_size=conf["bs"])
    t = Trainer(conf)
    for epoch in range(conf["epochs"]):
        tr = t.train_epoch(train, conf["accum_grad"])
        print(f"epoch {epoch} train {tr:.3f} cv {t.cv(dev):.3f} step {t.step}")
    print(f"RESULT steps={t.step} utterances_used={t.used} of={28 * conf['epochs']} cv={t.cv(dev):.4f}")


if __name__ == "__main__":
    main()
