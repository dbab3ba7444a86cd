import argparse
from types import SimpleNamespace

import torch
from torch import nn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cpu")
    p.add_argument("--half", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--weight", type=float, default=2e-7)
    return p.parse_args()


def setup(args):
    torch.manual_seed(55)
    enc = nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Conv1d(6, 6, 3))
    opt = torch.optim.Adam(enc.parameters(), lr=2e-3, eps=1e-14)
    return SimpleNamespace(
        enc=enc.to(args.device),
        opt=opt,
        scaler=torch.amp.GradScaler(args.device, enabled=args.half and torch.cuda.is_available()),  # <-- FAULT
    )


def train(st, args, n=10):
    zero = tot = 0
    for _ in range(n):
        sig = torch.randn(4, 3, 20, device=args.device)
        st.opt.zero_grad(set_to_none=True)
        with torch.autocast(args.device, dtype=torch.float16, enabled=args.half):
            z = st.enc(sig)
        loss = args.weight * z.float().square().mean()
        st.scaler.scale(loss).backward()
        zero += sum(int((p.grad == 0).sum()) for p in st.enc.parameters())
        tot += sum(p.grad.numel() for p in st.enc.parameters())
        st.scaler.step(st.opt)
        st.scaler.update()
    return zero / tot


args = get_args()
state = setup(args)
print(f"RESULT zero_gradients={train(state, args):.3f} scale={state.scaler.get_scale():g}")
