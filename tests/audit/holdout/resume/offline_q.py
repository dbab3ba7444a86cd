import copy
import pathlib
import tempfile

import torch
import torch.nn.functional as F

GAMMA = 0.9
TAU_EVERY = 5


def qnet():
    return torch.nn.Sequential(torch.nn.Linear(5, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))


def replay(n=256):
    g = torch.Generator().manual_seed(77)
    s = torch.randn(n, 5, generator=g)
    a = torch.randint(0, 3, (n,), generator=g)
    s2 = 0.8 * s + 0.2 * torch.randn(n, 5, generator=g)
    r = 30 * (s[torch.arange(n), a] > 0).float()
    return s, a, r, s2


def fresh(seed):
    torch.manual_seed(seed)
    q = qnet()
    return dict(
        q=q,
        target=copy.deepcopy(q).requires_grad_(False),
        optim=torch.optim.SGD(q.parameters(), lr=2e-3, momentum=0.5, nesterov=True),
        amp=torch.amp.GradScaler("cpu", init_scale=2.0**19, growth_interval=500),
        it=0,
    )


def train(st, data, iters, rng):
    s, a, r, s2 = data
    skipped = 0
    until = st["it"] + iters
    while st["it"] < until:
        pick = torch.randint(0, len(a), (32,), generator=rng)
        with torch.no_grad():
            goal = r[pick] + GAMMA * st["target"](s2[pick]).max(1).values
        with torch.autocast("cpu", dtype=torch.float16):
            value = st["q"](s[pick])
        value = value.float().gather(1, a[pick, None]).squeeze(1)
        loss = F.mse_loss(value, goal)
        st["optim"].zero_grad(set_to_none=True)
        st["amp"].scale(loss).backward()
        had = st["amp"].get_scale()
        st["amp"].step(st["optim"])
        st["amp"].update()
        if st["amp"].get_scale() < had:
            skipped += 1
        elif st["it"] % TAU_EVERY == 0:
            st["target"].load_state_dict(st["q"].state_dict())
        st["it"] += 1
    return skipped, loss.item()


def dump(st, file):
    torch.save({k: v if isinstance(v, int) else v.state_dict() for k, v in st.items()}, file)


def restore(file, seed):
    st, disk = fresh(seed), torch.load(file, weights_only=True)
    st["it"] = disk["it"]
    [st[part].load_state_dict(disk[part]) for part in ("q", "target", "optim")]  # <-- FAULT
    return st


if __name__ == "__main__":
    data = replay()
    rng = torch.Generator().manual_seed(4)
    state = fresh(0)
    with tempfile.TemporaryDirectory() as tmp:
        file = pathlib.Path(tmp) / "q.ckpt"
        a = train(state, data, 20, rng)
        b = train(state, data, 10, rng)
        dump(state, file)
        print("saved at", state["it"], "scale", state["amp"].get_scale())
        state = restore(file, seed=1)
        c = train(state, data, 10, rng)
    print("td loss", [round(v[1], 3) for v in (a, b, c)])
    print(f"RESULT skipped_first={a[0]} skipped_before_save={b[0]} skipped_after_load={c[0]}")
