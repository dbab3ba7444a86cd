import os
import tempfile

import divided_then_averaged_by_hand_lib as comm
import torch
import torch.multiprocessing as mp


def objective(net, x):
    recon = net(x)
    return (recon - x).square().mean()


def job(rank, size, path):
    torch.set_num_threads(1)
    comm.start(rank, size, path)
    torch.manual_seed(8)
    net = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.Tanh(), torch.nn.Linear(4, 10))
    comm.broadcast(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.5, weight_decay=1e-3)
    rng = torch.Generator().manual_seed(rank * 7 + 1)
    basis = torch.linspace(-1, 1, 30).view(3, 10)
    hist = []
    for _ in range(30):
        x = torch.randn(20, 3, generator=rng) @ basis
        loss = objective(net, x) / comm.size()  # <-- FAULT
        opt.zero_grad()
        loss.backward()
        comm.average_gradients(net)
        opt.step()
        hist.append(comm.mean(objective(net, x).detach()))
    if rank == 0:
        print(f"RESULT loss_after_10={hist[9]:.4f} loss_after_30={hist[-1]:.4f}", flush=True)
    comm.stop()


if __name__ == "__main__":
    mp.spawn(job, args=(2, os.path.join(tempfile.mkdtemp(), "f")), nprocs=2)
