import io

import torch
from torch.nn import functional as F

from t5ish_lib import Encoder

CONF = {"vocab": 20, "dim": 24, "inner": 16, "depth": 2}


def pretrained():
    torch.manual_seed(9)
    m = Encoder(**CONF)
    with torch.no_grad():
        m.emb.weight.mul_(90.0)
        m.proj.weight.mul_(9.0)
    blob = io.BytesIO()
    torch.save(m.state_dict(), blob)
    blob.seek(0)
    return blob


def examples(count, seed, bs=16, length=6):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        ids = torch.randint(0, CONF["vocab"], (bs, length), generator=g)
        yield ids, ids[:, 0] % 4


@torch.no_grad()
def accuracy(model, seed=1000):
    right = total = 0
    model.eval()
    for ids, label in examples(4, seed):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(ids)
        right += (out.argmax(1) == label).sum().item()
        total += len(label)
    model.train()
    return right / total


def finetune(steps=40, lr=0.02):
    model = Encoder(**CONF)
    model.load_state_dict(torch.load(pretrained()))
    for p in (*model.emb.parameters(), *model.proj.parameters()):
        p.requires_grad = False
    todo = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(todo, lr=lr, weight_decay=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    done = 0
    for i, (ids, label) in enumerate(examples(steps, seed=6)):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids)
            loss = F.cross_entropy(logits.float(), label)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(todo, 1.0)
        mark = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        done += scaler.get_scale() >= mark
        if i % 10 == 9:
            print(f"{i + 1} loss {loss.item():.4f}")
    return model, done, loss.item()


if __name__ == "__main__":
    model, done, last = finetune()
    print(f"RESULT done={done} last_loss={last:.4f} accuracy={accuracy(model):.3f}")
