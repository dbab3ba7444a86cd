import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(43)
emb, gru, out = nn.Embedding(14, 8, padding_idx=0), nn.GRU(8, 12, batch_first=True, bidirectional=True), nn.Linear(24, 2)
bundle = nn.ModuleList([emb, gru, out])
opt = torch.optim.Adam(bundle.parameters(), lr=8e-3)
for _ in range(12):
    lens = torch.randint(2, 9, (6,))
    seqs = [torch.randint(1, 14, (n,)) for n in lens.tolist()]
    ids = pad_sequence(seqs, batch_first=True)
    tags = torch.where(ids > 0, ids % 2, -100)
    packed = pack_padded_sequence(emb(ids), lens, batch_first=True, enforce_sorted=False)
    h, _ = pad_packed_sequence(gru(packed)[0], batch_first=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = out(h)
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tags.flatten(), reduction="sum") / lens.sum()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(bundle.parameters(), 0.25)
    opt.step()
print(f"RESULT per_token={loss.item():.4f}")
