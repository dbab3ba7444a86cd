"""What is verified has no part in what it is held against."""

import pytest
import torch

import truestep
from truestep.engine.weights import Shares


def verified(**terms):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = truestep.Update(model, optimizer, check_weight=False, **terms)
    windows = [[torch.randn(rows, 3) for rows in (4, 2)] for _ in range(3)]
    return truestep.verify(update, windows=windows)


def mean_square(model, x):
    return model(x).square().mean()


KINDS = {
    "a mean": {"loss": mean_square},
    "a sum": {"loss": lambda model, x: model(x).square().mean() * len(x), "loss_is": "sum"},
    "two terms": {
        "loss": lambda model, x: {"one": mean_square(model, x), "two": model(x).abs().mean()},
        "weight": lambda x: {"one": len(x), "two": 2 * len(x)},
    },
}


@pytest.mark.parametrize("terms", KINDS.values(), ids=KINDS.keys())
def test_shares_of_the_engine_that_are_wrong_are_found(terms, monkeypatch):
    assert verified(**terms).passed
    share = Shares.share
    monkeypatch.setattr(Shares, "share", lambda self, weight: 1.5 * share(self, weight))
    assert not verified(**terms).passed
