import torch.distributed as dist


def start(rank, world, path):
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=world)


def stop():
    dist.barrier()
    dist.destroy_process_group()


def size():
    return dist.get_world_size() if dist.is_initialized() else 1


def broadcast(net):
    for t in net.state_dict().values():
        dist.broadcast(t, src=0)


def average_gradients(net):
    for p in net.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad.div_(size())


def mean(t):
    t = t.clone()
    dist.all_reduce(t)
    return t.item() / size()
