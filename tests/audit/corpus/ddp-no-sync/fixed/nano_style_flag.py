import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

batch_size, block_size, vocab_size, n_embd = 4, 8, 17, 16
gradient_accumulation_steps = 4
max_iters = 3
learning_rate = 3e-1
grad_clip = 1.0


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.fc = nn.Linear(n_embd, n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        h = self.wte(idx) + self.wpe.weight[: idx.size(1)]
        h = h + F.gelu(self.fc(h))
        logits = self.lm_head(h)
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


def main(rank, world, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
    torch.manual_seed(1337)
    raw_model = TinyLM()
    model = DDP(raw_model)
    data = torch.randint(0, vocab_size, (4096,), generator=torch.Generator().manual_seed(5))
    gen = torch.Generator().manual_seed(1337 + rank)

    def get_batch():
        ix = torch.randint(len(data) - block_size - 1, (batch_size,), generator=gen)
        x = torch.stack([data[i : i + block_size] for i in ix.tolist()])
        y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix.tolist()])
        return x, y

    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    ctx = torch.autocast("cpu", dtype=torch.bfloat16)
    X, Y = get_batch()
    for _ in range(max_iters):
        for micro_step in range(gradient_accumulation_steps):
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
            with ctx:
                _, loss = model(X, Y)
                loss = loss / gradient_accumulation_steps
            X, Y = get_batch()
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    flat = torch.cat([p.detach().flatten() for p in raw_model.parameters()])
    other = [torch.zeros_like(flat) for _ in range(world)]
    dist.all_gather(other, flat)
    if rank == 0:
        print(f"RESULT max_difference_between_ranks={(other[0] - other[1]).abs().max().item():.5f}")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    url = "file://" + os.path.join(tempfile.mkdtemp(), "rdzv")
    mp.spawn(main, args=(2, url), nprocs=2)
