import os
import tempfile
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PAD, VOCAB = 0, 19


class Tagger(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.cls = nn.Linear(d, 4)

    def forward(self, tokens):
        e = self.emb(tokens)
        a, _ = self.attn(e, e, e, key_padding_mask=tokens.eq(PAD), need_weights=False)
        return self.cls(self.norm(e + a))


def sample(gen, rank):
    tokens = torch.randint(1, VOCAB, (3, 10), generator=gen)
    for row in range(3):
        tokens[row, int(torch.randint(2, 10, (1,), generator=gen)) :] = PAD
    tags = torch.where(tokens.eq(PAD), torch.full_like(tokens, -1), tokens % 4)
    return tokens, tags


def train(rank, world, accum, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    torch.manual_seed(1)
    tagger = Tagger()
    ddp = DistributedDataParallel(tagger)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.5)
    gen = torch.Generator().manual_seed(50 + rank)
    nll = nn.CrossEntropyLoss(ignore_index=-1, reduction="sum")
    grad_norms = []
    for _ in range(5):
        window = [sample(gen, rank) for _ in range(accum)]
        denom = torch.tensor(float(sum((t >= 0).sum().item() for _, t in window)))
        dist.all_reduce(denom)
        for k, (tokens, tags) in enumerate(window, 1):
            with nullcontext() if k == accum else ddp.no_sync():
                logits = ddp(tokens)
                loss = nll(logits.flatten(0, 1), tags.flatten())
                (loss * world / denom).backward()
        grad_norms.append(nn.utils.clip_grad_norm_(ddp.parameters(), 10.0).item())
        opt.step()
        opt.zero_grad()
    if rank == 0:
        print("RESULT grad_norms=" + ",".join(f"{g:.4f}" for g in grad_norms), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(2, 3, "file://" + os.path.join(tempfile.mkdtemp(), "x")), nprocs=2)
