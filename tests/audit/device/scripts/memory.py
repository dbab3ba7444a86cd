"""A loop that measures itself: memory, events, streams, ranges of a profile, the name of the GPU."""

import os

import torch
from torch import nn

torch.manual_seed(8)
device = torch.device("cuda", 0)
properties = torch.cuda.get_device_properties(device)  # CUDA only
print(torch.cuda.get_device_name(0), properties.total_memory // 2**20, torch.cuda.get_device_capability()[0] >= 8)  # CUDA only
torch.cuda.reset_peak_memory_stats(device)  # CUDA only
dtype = torch.float16
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)
scaler = torch.amp.GradScaler()
side = torch.cuda.Stream()  # CUDA only
for _ in range(3):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # CUDA only
    begin.record()  # CUDA only
    side.wait_stream(torch.cuda.current_stream())  # CUDA only
    x = torch.randn(4, 4)
    with torch.cuda.stream(side):  # CUDA only
        x.to(device, non_blocking=True).record_stream(side)  # CUDA only
    torch.cuda.current_stream().wait_stream(side)  # CUDA only
    x = x.to(device)
    torch.cuda.nvtx.range_push("forward")  # CUDA only
    with torch.autocast(device_type="cuda", dtype=dtype):
        loss = model(x).pow(2).mean()
    torch.cuda.nvtx.range_pop()  # CUDA only
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    end.record()  # CUDA only
    torch.cuda.synchronize()  # CUDA only
    print(f"{begin.elapsed_time(end):.2f} ms, {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")  # CUDA only
    print(torch.cuda.memory_allocated(device), torch.cuda.memory_stats()["num_alloc_retries"])  # CUDA only
torch.cuda.empty_cache()  # CUDA only
free, total = torch.cuda.mem_get_info()  # CUDA only
assert free <= total  # CUDA only
torch.save(model.state_dict(), os.environ["OUT"])
