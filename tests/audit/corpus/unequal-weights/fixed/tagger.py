import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD_TAG = -1
GRAD_ACC = 3


class Sentences(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.rows = []
        for _ in range(n):
            length = int(torch.randint(2, 24, (1,), generator=g))
            words = torch.randint(1, 30, (length,), generator=g)
            self.rows.append((words, words % 4))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    w, t = zip(*rows)
    return pad_sequence(w, batch_first=True), pad_sequence(t, batch_first=True, padding_value=PAD_TAG)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 12, padding_idx=0)
        self.rnn = nn.GRU(12, 20, batch_first=True)
        self.out = nn.Linear(20, 4)

    def forward(self, w):
        return self.out(self.rnn(self.emb(w))[0])


torch.manual_seed(3)
model = Tagger()
loader = DataLoader(Sentences(36), batch_size=2, collate_fn=collate)
optim = torch.optim.SGD(model.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024)
ce = nn.CrossEntropyLoss(ignore_index=PAD_TAG, reduction="sum")

buffer = []
for batch in loader:
    buffer.append(batch)
    if len(buffer) < GRAD_ACC:
        continue
    n_tags = sum(int(t.ne(PAD_TAG).sum()) for _, t in buffer)
    for words, tags in buffer:
        with torch.autocast("cpu", dtype=torch.float16):
            scores = model(words)
        loss = ce(scores.float().transpose(1, 2), tags) / n_tags
        scaler.scale(loss).backward()
    scaler.step(optim)
    scaler.update()
    optim.zero_grad()
    buffer.clear()

b = model.out.bias.detach()
print("RESULT tags_in_last_window=%d out_bias=%s" % (n_tags, ",".join("%.5f" % v for v in b)))
