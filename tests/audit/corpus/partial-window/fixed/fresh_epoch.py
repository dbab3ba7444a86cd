import torch
import torch.nn.functional as F

torch.manual_seed(99)
ACCUM = 3
BATCHES_PER_EPOCH = 8

emb = torch.nn.EmbeddingBag(40, 8, mode="mean")
clf = torch.nn.Linear(8, 3)
params = [*emb.parameters(), *clf.parameters()]
opt = torch.optim.Adagrad(params, lr=0.05)
docs = torch.randint(0, 40, (BATCHES_PER_EPOCH * 4, 6))
topic = docs.sum(1) % 3

applied = lost = 0
for epoch in range(4):
    opt.zero_grad()
    since_step = 0
    for b in range(BATCHES_PER_EPOCH):
        sl = slice(b * 4, b * 4 + 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = clf(emb(docs[sl]))
        loss = F.cross_entropy(logits.float(), topic[sl])
        (loss / min(ACCUM, BATCHES_PER_EPOCH - b // ACCUM * ACCUM)).backward()
        since_step += 1
        if since_step == ACCUM or b == BATCHES_PER_EPOCH - 1:
            opt.step()
            opt.zero_grad()
            applied += since_step
            since_step = 0
    lost += since_step
print(f"RESULT microbatches={4 * BATCHES_PER_EPOCH} applied={applied} lost={lost}")
