"""What makes a microbatch something else than rows of the full batch is found by measurement and named with its place."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from truestep.verification.coupling import find

SPLIT = (3, 2, 3)


class Centred(nn.Module):
    """Nobody's type: subtracts the batch's mean."""

    def forward(self, x):
        return x - x.mean(0)


class Residual(nn.Module):
    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x):
        return x + self.inner(self.change(x))


def net(*layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), *layers, nn.Linear(6, 2))


def searched(model, loss=None, split=SPLIT, weights=None, features=(5,)):
    torch.manual_seed(1)
    x, y = torch.randn(sum(split), *features), torch.randn(sum(split), 2)
    window = list(zip(x.split(split), y.split(split), strict=True))
    return find(model, loss or mean_square, window, (x, y), weights or split)


def mean_square(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


@pytest.mark.parametrize(
    ("layer", "kind", "type_name"),
    [
        (nn.BatchNorm1d(6), "batch-norm", "BatchNorm1d"),
        (nn.Dropout(0.5), "dropout", "Dropout"),
        (nn.RReLU(), "dropout", "RReLU"),
        (Centred(), "other", "Centred"),
        (nn.Sequential(nn.Tanh(), nn.Sequential(Centred())), "other", "Centred"),
    ],
)
def test_the_module_is_named_with_its_path_and_what_it_does(layer, kind, type_name):
    model = net(layer)
    found = searched(model)
    assert found.kind == kind
    assert type(model.get_submodule(found.module)).__name__ == type_name
    assert found.module in found.sentence
    assert type_name in found.sentence


@pytest.mark.parametrize("layer", [nn.ReLU(inplace=True), nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.Dropout(0.0), nn.Identity()])
@pytest.mark.parametrize("split", [SPLIT, (8,), (1,) * 8, (2, 2, 2, 2)])
def test_nothing_is_found_where_examples_are_independent(layer, split):
    assert searched(net(layer), split=split) is None


def test_a_batch_norm_in_evaluation_couples_nothing():
    assert searched(net(nn.BatchNorm1d(6).eval())) is None


def test_the_first_of_several_is_named_not_what_it_spoils():
    assert searched(net(nn.Tanh(), nn.BatchNorm1d(6), nn.Dropout(0.5))).module == "2"
    assert searched(net(nn.Dropout(0.5), nn.BatchNorm1d(6))).module == "1"


def test_what_a_modules_own_code_does_is_laid_to_it_and_not_to_its_parts():
    shuffled = Residual(nn.Linear(6, 6), lambda x: nn.functional.dropout(x, 0.5))
    found = searched(net(shuffled))
    assert (found.module, found.kind) == ("1", "dropout")
    centred = Residual(nn.Linear(6, 6), lambda x: x - x.mean(0))
    found = searched(net(centred))
    assert (found.module, found.kind) == ("1", "other")


def test_a_contrastive_loss_is_the_loss():
    def contrastive(model, batch):
        left = nn.functional.normalize(model(batch[0]), dim=1)
        right = nn.functional.normalize(batch[1], dim=1)
        return nn.functional.cross_entropy(left @ right.T / 0.1, torch.arange(len(left)))

    found = searched(net(nn.ReLU()), contrastive)
    assert (found.module, found.kind) == (None, "loss")
    assert "contrastive" in found.sentence


def test_a_loss_that_centres_on_its_batch_is_the_loss():
    assert searched(net(), lambda model, batch: (model(batch[0]) - model(batch[0]).mean(0)).square().mean()).kind == "loss"


def test_a_loss_that_draws_at_random_is_said_to():
    found = searched(net(), lambda model, batch: (model(batch[0]) + torch.randn(len(batch[0]), 1) - batch[1]).square().mean())
    assert (found.module, found.kind) == (None, "dropout")


def test_a_loss_that_is_a_module_of_the_model_is_named():
    class Scored(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.score = net(), nn.MSELoss()

        def forward(self, batch):
            return self.score(self.body(batch[0]), batch[1])

    def loss(model, batch):
        return model(batch)

    assert searched(Scored(), loss) is None
    found = searched(Scored(), loss, weights=(1, 1, 1))
    assert (found.module, found.kind) == ("score", "loss")


def test_unequal_weights_that_are_declared_are_no_coupling():
    assert searched(net(), split=(1, 7)) is None


def test_weights_that_are_not_the_losses_are_told_beside_the_loss():
    found = searched(net(), split=(1, 7), weights=(1, 1))
    assert found.kind == "loss"
    assert "weights" in found.sentence


def test_a_queue_that_is_kept_from_one_forward_to_the_next_is_found():
    class Queue(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(6))

        def forward(self, x):
            y = x + self.last
            self.last.copy_(x[-1].detach())
            return y

    model = net(Queue())
    assert (searched(model).module, searched(model).kind) == ("1", "other")
    assert not model[1].last.any()


def test_everything_is_put_back():
    class Wanders(nn.Module):
        def forward(self, x):
            self.eval()
            return x

    model = net(nn.BatchNorm1d(6), Wanders(), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(7)
    state = torch.get_rng_state()
    x = torch.randn(8, 5)
    torch.set_rng_state(state)
    find(model, mean_square, [(x[:4], torch.zeros(4, 2)), (x[4:], torch.zeros(4, 2))], (x, torch.zeros(8, 2)), (4, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_no_hook_is_left_behind_by_an_exception():
    model = net()

    def fails(model, batch):
        model(batch[0])
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        searched(model, fails)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_module_that_is_called_twice_is_followed_call_by_call():
    shared = nn.Linear(6, 6)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.same, self.drop = shared, shared, nn.Dropout(0.5)

        def forward(self, x):
            return self.same(self.drop(self.one(x)))

    assert searched(net(Twice())).module == "1.drop"


class Recurrent(nn.Module):
    """Tuple outputs, states without the batch in front, and packed sequences on request."""

    def __init__(self, *, packed, batch_norm=False):
        super().__init__()
        self.cell, self.packed = nn.LSTM(5, 6, batch_first=True), packed
        self.after = nn.BatchNorm1d(6) if batch_norm else nn.Identity()
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        if not self.packed:
            return self.head(self.after(self.cell(x)[0][:, -1]))
        given = pack_padded_sequence(x, [x.shape[1]] * len(x), batch_first=True)
        return self.head(self.after(pad_packed_sequence(self.cell(given)[0], batch_first=True)[0][:, -1]))


@pytest.mark.parametrize("packed", [False, True])
def test_recurrences_with_tuples_and_packed_sequences_are_followed(packed):
    torch.manual_seed(0)
    assert searched(Recurrent(packed=packed), features=(4, 5)) is None
    assert searched(Recurrent(packed=packed, batch_norm=True), features=(4, 5)).module == "after"


def test_a_module_is_not_blamed_for_what_wider_padding_gave_it():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrence, self.drop, self.head = nn.GRU(5, 6, batch_first=True), nn.Dropout(0.5), nn.Linear(6, 2)

        def forward(self, x):
            return self.head(self.drop(self.recurrence(x)[0]))

    def padded(sentences):
        return nn.utils.rnn.pad_sequence(sentences, batch_first=True), torch.tensor([len(each) for each in sentences])

    def loss(model, batch):
        x, lengths = batch
        scored = torch.arange(x.shape[1]) < lengths[:, None]
        return model(x)[scored].square().mean()

    torch.manual_seed(0)
    short, long = [[torch.randn(length, 5) for _ in range(2)] for length in (3, 5)]
    found = find(Tagger(), loss, [padded(short), padded(long)], padded(short + long), (6, 10))
    assert (found.module, found.kind) == (None, "dropout")


def test_outputs_without_a_row_for_each_example_are_passed_over():
    class Told(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net(nn.BatchNorm1d(6))

        def forward(self, x):
            return {"out": self.body(x), "gram": x @ x.T, "text": "words", "mean": x.mean(), "none": None}

    found = searched(Told(), lambda model, batch: nn.functional.mse_loss(model(batch[0])["out"], batch[1]))
    assert found.module == "body.1"


def test_nothing_is_searched_where_nothing_weighs():
    assert searched(net(nn.BatchNorm1d(6)), weights=(0, 0, 0)) is None
