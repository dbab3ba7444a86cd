"""Losses of several terms, with coefficients, over several views: what is right as it stands raises neither error nor warning.

Many a number in such a loss is that of the microbatches by chance: the 0.5 of an auxiliary head, the two terms of a
discriminator, the four views of an image. What the graph cannot tell from a missing or a second division is not blamed.
"""

import textwrap

import pytest

from tests.audit.harness import examine

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
heads = nn.ModuleList(nn.Linear(8, n) for n in (1, 1, 1, 1, 3))
params = [*net.parameters(), *heads.parameters()]
def x(n=8):
    return torch.randn(n, 4)
def mse(i, given):
    return F.mse_loss(heads[i](net(given)).squeeze(-1), given[:, 0])
def ce(given):
    return F.cross_entropy(heads[4](net(given)), given[:, :3].argmax(-1))
def train(loss_of, K, updates=5, scale=None, opt=None):
    opt = opt or torch.optim.SGD(params, lr=0.05)
    for _ in range(updates):
        opt.zero_grad()
        for _ in range(K):
            loss = loss_of(K)
            loss.backward()
        if scale is not None:
            for p in params:
                if p.grad is not None:
                    p.grad.mul_(scale)
        opt.step()
"""

RIGHT = {
    "a discriminator's two terms over two microbatches": """
        def loss(K):
            real, fake = x(16) + 1, x(16)
            return (F.relu(1 - heads[0](net(real))).mean() + F.relu(1 + heads[0](net(fake))).mean()) / K
        train(loss, 2)
    """,
    "terms of unequal sizes, as many as microbatches": """
        train(lambda K: (mse(0, x(8)) + mse(1, x(5))) / K, 2)
    """,
    "four heads over four microbatches": """
        def loss(K):
            given = x()
            return sum(mse(i, given) for i in range(4)) / K
        train(loss, 4)
    """,
    "four heads over two microbatches": """
        def loss(K):
            given = x()
            return (sum(mse(i, given) for i in range(2)) / 2 + sum(mse(i, given) for i in (2, 3)) / 2) / K
        train(loss, 2)
    """,
    "the mean of four heads over four microbatches": """
        def loss(K):
            given = x()
            return 0.25 * sum(mse(i, given) for i in range(4)) / K
        train(loss, 4)
    """,
    "a mean over the examples of a batch of as many as the microbatches": """
        def loss(K):
            given = x(4)
            return sum(mse(0, given[i : i + 1]) for i in range(4)) / len(given) / K
        train(loss, 4)
    """,
    "three heads": """
        def loss(K):
            given = x()
            return (mse(0, given) + mse(1, given) + mse(2, given)) / K
        train(loss, 3)
        train(loss, 2)
        train(loss, 4)
    """,
    "an auxiliary loss with the coefficient 0.5": """
        def loss(K):
            given = x()
            return (ce(given) + 0.5 * mse(0, given)) / K
        train(loss, 2)
        train(loss, 4)
    """,
    "two main terms and an auxiliary one with the coefficient 0.5": """
        def loss(K):
            given = x()
            return (mse(0, given) + mse(1, given) + 0.5 * mse(2, given)) / K
        train(loss, 2)
    """,
    "an auxiliary loss with the coefficient 0.5 whose gradients are divided after the window": """
        def loss(K):
            given = x()
            return ce(given) + 0.5 * mse(0, given)
        train(loss, 2, scale=0.5)
    """,
    "one loss on two views": """
        def loss(K):
            given = x()
            return (ce(given + 0.1 * x()) + ce(given + 0.1 * x())) / K
        train(loss, 2)
    """,
    "the mean of one loss on two views": """
        def loss(K):
            given = x()
            return 0.5 * (ce(given + 0.1 * x()) + ce(given + 0.1 * x())) / K
        train(loss, 2)
        train(loss, 4)
    """,
    "the two directions of a contrastive loss": """
        def loss(K):
            given = x()
            left, right = F.normalize(net(given), dim=-1), F.normalize(net(given + 0.1), dim=-1)
            logits, target = left @ right.T * 10, torch.arange(len(given))
            return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2 / K
        train(loss, 2)
        train(loss, 4)
    """,
    "weight decay by hand": """
        def loss(K):
            return (mse(0, x()) + 0.5 * 1e-2 * sum(p.square().sum() for p in params)) / K
        train(loss, 2)
        train(loss, 4)
    """,
    "backwards that begin with their weight": """
        opt = torch.optim.SGD(params, lr=0.05)
        for _ in range(5):
            opt.zero_grad()
            for _ in range(4):
                mse(0, x()).backward(torch.tensor(1 / 4))
            opt.step()
    """,
    "backwards that begin with the loss scale": """
        opt, scaler = torch.optim.SGD(params, lr=0.05), torch.amp.GradScaler("cpu", init_scale=64.0)
        for _ in range(5):
            opt.zero_grad()
            for _ in range(4):
                (mse(0, x()) / 4).backward(scaler.scale(torch.tensor(1.0)))
            scaler.step(opt)
            scaler.update()
    """,
    "tasks of unequal sizes, each with its weight": """
        def loss(K):
            return (0.5 * ce(x(12)) + 0.25 * mse(0, x(6)) + 0.25 * mse(1, x(4))) / K
        train(loss, 4)
        train(loss, 2)
    """,
    "a coefficient of 1/4 that is not that of four microbatches": """
        train(lambda K: 0.25 * mse(0, x()) / K, 4)
    """,
    "coefficients of 1/4 from a name, an option and a tensor, which the text does not always tell": """
        import argparse, json
        ALPHA, options = 0.25, argparse.ArgumentParser()
        options.add_argument("--alpha", type=float, default=0.25)
        alpha, read = options.parse_args([]).alpha, json.loads('{"alpha": 0.25}')["alpha"]
        for each in (ALPHA, alpha, read, torch.tensor([0.25, 0.75])[0]):
            train(lambda K: each * mse(0, x()) / K, 4)
    """,
    "a coefficient and the microbatches in one number": """
        train(lambda K: mse(0, x()) * (0.5 / K), 4)
        train(lambda K: mse(0, x()) * (3 / K), 4)
    """,
    "weights of terms that hold the number of the microbatches": """
        def loss(K):
            given = x()
            return (1 / K) * ce(given) + (0.3 / K) * mse(0, given)
        train(loss, 4)
    """,
    "a coefficient of 1/2 and gradients that are divided after the window, the last of which is short": """
        opt = torch.optim.SGD(params, lr=0.05)
        for size in (2, 2, 1, 2, 2, 1):
            opt.zero_grad()
            for _ in range(size):
                (0.5 * mse(0, x())).backward()
            for p in params:
                if p.grad is not None:
                    p.grad.div_(size)
            opt.step()
    """,
    "terms of two parts over windows of which the last is short": """
        opt = torch.optim.SGD(params, lr=0.05)
        for size in (4, 4, 2, 4, 4, 2):
            opt.zero_grad()
            for _ in range(size):
                ((mse(0, x()) + mse(1, x())) / size).backward()
            opt.step()
    """,
    "tokens of the window below a sum, and an auxiliary head": """
        def loss(K):
            given = x()
            total = F.cross_entropy(heads[4](net(given)), given[:, :3].argmax(-1), reduction="sum")
            return total / (K * 8) + 0.5 * mse(0, given) / K
        train(loss, 2)
        train(loss, 4)
    """,
    "a generator's three terms with their coefficients": """
        def loss(K):
            given = x()
            return (F.softplus(-heads[0](net(given))).mean() + 10 * mse(1, given) + 0.5 * mse(2, given)) / K
        train(loss, 2)
    """,
    "real and fake, each with a backward of its own in a loop over the pair": """
        opt = torch.optim.SGD(params, lr=0.05)
        for _ in range(5):
            real, fake = x() + 1, x()
            opt.zero_grad()
            for given, label in ((real, 1.0), (fake, 0.0)):
                out = heads[0](net(given)).squeeze(-1)
                F.binary_cross_entropy_with_logits(out, torch.full_like(out, label)).backward()
            opt.step()
    """,
    "two terms with the learning rate divided": """
        K = 2
        opt = torch.optim.SGD(params, lr=0.05 / K)
        def loss(K):
            given = x()
            return ce(given) + 0.5 * mse(0, given)
        train(loss, K, opt=opt)
    """,
    "an update of the library's own with two terms": """
        import truestep
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.net, self.head = net, heads[0]
            def forward(self, given):
                return self.head(self.net(given))
        model = Two()
        update = truestep.Update(
            model, torch.optim.SGD(model.parameters(), lr=0.05), policy="fp32",
            loss=lambda model, given: F.relu(1 - model(given + 1)).mean() + F.relu(1 + model(given)).mean(),
        )
        for _ in range(4):
            update([x(), x()])
    """,
}

WRONG = {
    "two terms that nothing divides": """
        train(lambda K: mse(0, x()) + mse(1, x()), 2)
    """,
    "the mean of two terms over four microbatches that nothing divides": """
        train(lambda K: (mse(0, x()) + mse(1, x())) / 2, 4)
    """,
    "three heads that nothing divides": """
        train(lambda K: mse(0, x()) + mse(1, x()) + mse(2, x()), 4)
    """,
    "two terms of which one is divided": """
        train(lambda K: mse(0, x()) / K + 0.5 * mse(1, x()), 4)
    """,
    "two terms that were divided by another number": """
        train(lambda K: (mse(0, x()) + mse(1, x())) / 3, 4)
    """,
    "two terms that were divided twice": """
        train(lambda K: (mse(0, x()) + mse(1, x())) / K / K, 4)
    """,
    "an auxiliary term with a small coefficient of which only the other is divided": """
        train(lambda K: ce(x()) / K + 0.01 * mse(1, x()), 4)
    """,
    "a product with the inverse, and a division": """
        train(lambda K: mse(0, x()) * (1 / K) / K, 4)
    """,
    "a named coefficient, and nothing divides": """
        LAMBDA = 0.5
        train(lambda K: LAMBDA * mse(0, x()), 4)
    """,
    "a coefficient, and nothing divides": """
        train(lambda K: 0.5 * mse(0, x()), 4)
    """,
}


def findings(tmp_path, script):
    """Those of a script, which has to run through."""
    file = tmp_path / "train.py"
    file.write_text(HEAD + textwrap.dedent(script))
    seen = examine(file)
    assert (seen.failure, seen.ended) == (None, None)
    return seen.findings


def faults(tmp_path, script):
    """Its errors and warnings."""
    return [(each.rule, each.line, each.message) for each in findings(tmp_path, script) if each.severity != "note"]


@pytest.mark.parametrize("script", RIGHT.values(), ids=RIGHT)
def test_a_right_loss_of_several_terms_is_not_blamed(tmp_path, script):
    assert faults(tmp_path, script) == []


def test_what_cannot_be_told_of_a_mean_over_examples_is_a_note(tmp_path):
    (note,) = findings(tmp_path, "train(lambda K: sum(mse(0, each) for each in x(8).split(1)) / 8, 4)")
    assert (note.rule, note.severity) == ("accumulation-weight", "note")
    assert "nothing divides by the 4 microbatches" in note.message
    assert findings(tmp_path, "train(lambda K: sum(mse(0, each) for each in x(8).split(1)) / 8 / K, 4)") == ()


@pytest.mark.parametrize("script", WRONG.values(), ids=WRONG)
def test_a_wrong_one_is(tmp_path, script):
    assert {rule for rule, *_ in faults(tmp_path, script)} == {"accumulation-weight"}
