"""A loss's terms are read with what divided each of them; the loss scale is no divisor of the script's."""

import pytest
import torch
from torch import nn

from truestep.audit.trace.shares import read_roots, read_shares

LAYER = nn.Linear(4, 3)
LOGITS = LAYER(torch.ones(6, 4))
TARGET = torch.tensor([0, 1, 2, -100, 1, 0])


def loss():
    return nn.functional.cross_entropy(LOGITS, TARGET)


@pytest.mark.parametrize("divisors", [(), (4.0,), (4.0, 4.0)])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_what_divided_a_mean_is_told_beside_its_weight(divisors, scale):
    root = loss()
    for divisor in divisors:
        root = root / divisor
    (share,), unread = read_shares(root * scale, scale)
    assert unread is None
    assert share.divisors == pytest.approx(divisors)
    assert share.elements == 5
    assert share.weight == pytest.approx(1 / 5 / (torch.tensor(divisors).prod().item() if divisors else 1))


def test_all_terms_are_told_and_the_main_one_first():
    shares, _ = read_shares(loss() / 8 + 0.5 * LOGITS.square().mean(), 1.0)
    assert [each.divisors for each in shares] == [pytest.approx((2.0,)), pytest.approx((8.0,))]
    assert shares[0].node == "MeanBackward0"


@pytest.mark.parametrize("divisors", [(), (4.0,)])
def test_a_mixture_is_one_loss(divisors):
    other = nn.functional.cross_entropy(LOGITS, TARGET.flip(0))
    for left, expected in ((0.3, divisors), (0.9, divisors)):
        root = left * loss() + (1 - left) * other
        for divisor in divisors:
            root = root / divisor
        shares, _ = read_shares(root, 1.0)
        assert shares[0].divisors == expected
        assert shares[0].multiplied == ()
        assert shares[0].weight == pytest.approx(1 / 5 / (4 if divisors else 1))
    apart, _ = read_shares(0.3 * loss() + 0.6 * other, 1.0)
    assert apart[0].divisors == pytest.approx((1 / 0.6,))


def test_a_backward_that_begins_with_a_number_multiplies_its_loss_by_it():
    seed = torch.tensor(0.25)
    for roots, seeds in (([loss()], seed), ([loss(), LOGITS.square().mean()], [seed, None])):
        shares, unread = read_roots(roots, seeds, 1.0)
        assert unread is None
        assert shares[0].divisors == pytest.approx((4.0,))
        assert shares[0].weight == pytest.approx(1 / 5 / 4)
        assert [each.node for each in shares] == ["NllLossBackward0", "MeanBackward0"][: len(roots)]
    assert read_roots([LOGITS], torch.arange(18.0).reshape(6, 3), 1.0) == ((), "a backward that begins with several numbers")


def test_a_graph_without_a_reduction_gives_no_share():
    shares, unread = read_shares(LOGITS[0, 0] * 2, 1.0)
    assert shares == ()
    assert unread
