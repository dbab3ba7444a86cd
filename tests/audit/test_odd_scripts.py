"""Scripts that use torch in unusual ways run under audit to the bit as they do without, and are blamed for nothing."""

import textwrap

import pytest

from tests.audit.harness import examine

HEAD = """
import random
import torch
from torch import nn
torch.manual_seed(0)
random.seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def train(updates, model=model, opt=opt):
    for _ in range(updates):
        opt.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        opt.step()
"""

ODD = {
    "an export of a model that has gradients": """
        train(3)
        print(torch.export.export(model, (torch.randn(2, 4),)).graph)
        train(3)
    """,
    "a compiled model that may have no break in its graph": """
        fast = torch.compile(model, backend="eager", fullgraph=True)
        train(4, fast)
        print(len(torch._dynamo.utils.counters["graph_break"]), torch._dynamo.utils.counters["stats"]["unique_graphs"])
    """,
    "modes that count the operations of the script": """
        from torch.utils._python_dispatch import TorchDispatchMode
        seen = []
        class Counting(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **kwargs or {})
        with Counting():
            train(4)
        print(seen)
    """,
    "gradients of single examples, made by transforms": """
        from torch.func import functional_call, grad, vmap
        def one(weights, x):
            return functional_call(model, weights, (x[None],)).square().mean()
        for _ in range(4):
            weights = {name: each.detach() for name, each in model.named_parameters()}
            single = vmap(grad(one), in_dims=(None, 0))(weights, torch.randn(8, 4))
            for name, each in model.named_parameters():
                each.grad = single[name].mean(0)
            opt.step()
            opt.zero_grad()
        train(3)
    """,
    "a transformer that is evaluated by its fused kernel": """
        encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        data = torch.ones(2, 5, 8)
        train(2)
        encoder.eval(), attention.eval()
        with torch.no_grad():
            print(encoder(data).tolist(), attention(data, data, data)[0].tolist())
        train(4)
    """,
    "two threads that train two models": """
        import threading
        def other(seed):
            drawn, net = torch.Generator().manual_seed(seed), nn.Linear(4, 1)
            its = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(60):
                its.zero_grad()
                net(torch.randn(8, 4, generator=drawn)).square().mean().backward()
                its.step()
        threads = [threading.Thread(target=other, args=(seed,)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        train(3)
    """,
    "a handler of signals that raises": """
        import signal
        class Enough(Exception):
            pass
        def ring(number, frame):
            raise Enough
        signal.signal(signal.SIGALRM, ring)
        heard = 0
        for _ in range(40):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.004)
                while True:
                    model.zero_grad()
            except Enough:
                heard += 1
        print(heard)
    """,
    "a clip by another norm than the second": """
        for _ in range(6):
            opt.zero_grad()
            (100 * model(torch.randn(8, 4)).square().mean()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=float("inf"))
            opt.step()
    """,
    "one clip over the parameters of two optimizers": """
        net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
        first = torch.optim.SGD([net[0].weight, net[1].weight], lr=0.1)
        second = torch.optim.AdamW([net[0].bias, net[1].bias])
        for _ in range(8):
            (net(torch.randn(8, 4)).square().mean() * 20).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            first.step()
            second.step()
            net.zero_grad()
    """,
}

WRONG = {
    "an optimizer that keeps things where nobody looks": """
        class Kept(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {"lr": 0.1})
                self.slow, self.drawn = {}, []
            @torch.no_grad()
            def step(self, closure=None):
                self.drawn.append(random.random())
                print("a step")
                for p in self.param_groups[0]["params"]:
                    self.slow.setdefault(p, torch.zeros_like(p)).add_(p.grad)
                    self.state[p].setdefault("sums", []).append(p.grad.sum().item())
                    p.sub_(self.slow[p], alpha=0.1)
        opt = Kept(model.parameters())
        for _ in range(6):
            opt.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            model.weight.grad.mul_(3)
            opt.step()
        print(opt.drawn, opt.state[model.weight])
    """,
    "a graph that a later backward goes through": """
        other = nn.Linear(4, 1)
        opt = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
        for _ in range(4):
            opt.zero_grad()
            later = other(torch.randn(8, 4, requires_grad=True)).square().mean()
            model(torch.randn(8, 4)).square().mean().backward()
            model.weight.grad.mul_(2)
            opt.step()
            opt.zero_grad()
            later.backward()
            opt.step()
            print([each._version for each in opt.param_groups[0]["params"]])
    """,
}


def both(tmp_path, script):
    """What came of it under audit, after a look that it is what comes of it without."""
    file = tmp_path / "train.py"
    file.write_text(HEAD + textwrap.dedent(script))
    alone, audited = examine(file, watched=False), examine(file)
    assert (alone.failure, audited.failure, alone.ended) == (None, None, None)
    assert (audited.output, audited.ended, audited.digest) == (alone.output, alone.ended, alone.digest)
    return audited


@pytest.mark.parametrize("script", ODD.values(), ids=ODD)
def test_what_is_odd_is_neither_changed_nor_blamed(tmp_path, script):
    assert both(tmp_path, script).findings == ()


@pytest.mark.parametrize("script", WRONG.values(), ids=WRONG)
def test_the_measure_of_a_damage_changes_nothing(tmp_path, script):
    both(tmp_path, script)
