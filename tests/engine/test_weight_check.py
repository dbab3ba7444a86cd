"""Declared weights held against the losses that people write: what is refused, what is accepted, and what is left open."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import truestep
from tests.probe.losses import CLASSES, EXAMPLES, LENGTHS, MASK, SCORED, TOKENS, labels, picked_losses, put_out, token_losses
from truestep.engine.weight_check import WeightCheck
from truestep.errors import WeightError

B, T, C = EXAMPLES, TOKENS, CLASSES
Loss = Callable[[], Tensor]


def checked(loss: Tensor, weight: float, loss_is: str = "mean") -> str:
    check = WeightCheck(loss_is, declared=True, wanted=True)
    check(loss, weight)
    return check.text


def refused(loss: Tensor, weight: float, loss_is: str = "mean") -> WeightError:
    with pytest.raises(WeightError) as caught:
        checked(loss, weight, loss_is)
    return caught.value


def cross_entropy(**keywords) -> Tensor:
    return F.cross_entropy(put_out(B, T, C).transpose(1, 2), labels(), **keywords)


def causal(*, divide_by: int | None = None) -> Tensor:
    """As a causal language model of the Transformers library computes it from unshifted labels of LENGTHS tokens."""
    logits = put_out(B, T, C).float()
    shifted = F.pad(labels(), (0, 1), value=-100)[..., 1:].contiguous()
    reduction = "mean" if divide_by is None else "sum"
    loss = F.cross_entropy(logits.view(-1, C), shifted.view(-1), ignore_index=-100, reduction=reduction)
    return loss if divide_by is None else loss / torch.tensor(divide_by)


def old_causal() -> Tensor:
    logits = put_out(B, T, C)
    return F.cross_entropy(logits[..., :-1, :].contiguous().view(-1, C), labels()[..., 1:].contiguous().view(-1))


SHIFTED = SCORED - B

TOKEN_LOSSES: dict[str, tuple[int, Loss]] = {
    "cross entropy": (SCORED, cross_entropy),
    "every token": (B * T, lambda: F.cross_entropy(put_out(B, T, C).transpose(1, 2), labels(0))),
    "flat": (SCORED, lambda: F.cross_entropy(put_out(B, T, C).flatten(0, 1), labels().flatten())),
    "time first": (SCORED, lambda: F.cross_entropy(put_out(T, B, C).permute(1, 2, 0), labels())),
    "smoothed": (SCORED, lambda: cross_entropy(label_smoothing=0.1)),
    "nll": (SCORED, lambda: F.nll_loss(put_out(B * T, C).log_softmax(-1), labels().view(-1))),
    "sum by count": (SCORED, lambda: cross_entropy(reduction="sum") / (labels() != -100).sum()),
    "sum by python's count": (SCORED, lambda: cross_entropy(reduction="sum") / SCORED),
    "unreduced, masked": (SCORED, lambda: (token_losses() * MASK).sum() / MASK.sum()),
    "unreduced, indexed": (SCORED, lambda: torch.mean(token_losses()[MASK])),
    "unreduced, every token": (B * T, lambda: cross_entropy(reduction="none").mean()),
    "picked, masked": (SCORED, lambda: (picked_losses() * MASK).sum() / MASK.sum()),
    "picked, indexed": (SCORED, lambda: torch.mean(picked_losses()[MASK])),
    "picked, every token": (B * T, lambda: picked_losses().mean()),
    "rescaled mean of all": (SCORED, lambda: (picked_losses() * MASK).mean() / MASK.float().mean()),
    "causal": (SHIFTED, causal),
    "causal by the count of its batch": (SHIFTED, lambda: causal(divide_by=SHIFTED)),
    "causal, old": (SHIFTED, old_causal),
    "a quarter": (SCORED, lambda: cross_entropy() / B),
    "sum by count, a quarter": (SCORED, lambda: cross_entropy(reduction="sum") / SCORED / B),
    "with a penalty": (SCORED, lambda: cross_entropy() + 0.01 * torch.randn(3, requires_grad=True).norm()),
    "with a z-loss": (SCORED, lambda: ((cross_entropy(reduction="none") + 1e-4 * put_out(B, T) ** 2) * MASK).sum() / SCORED),
    "through data parallel": (SCORED, lambda: cross_entropy().view(1).mean()),
    "soft labels": (B * T, lambda: F.cross_entropy(put_out(B * T, C), torch.rand(B * T, C))),
    "preferences": (B, lambda: (picked_losses() * MASK).sum(1).mean()),
}


@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_the_scored_tokens_of_a_token_loss_are_accepted(name: str) -> None:
    scored, loss = TOKEN_LOSSES[name]
    assert checked(loss(), scored).startswith("equals the loss's denominator (")


@pytest.mark.parametrize("wrong", [B, B * T, SCORED, SHIFTED, 1, SCORED + B, SCORED - 1])
@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_any_other_weight_of_a_token_loss_is_refused_with_both_numbers(name: str, wrong: int) -> None:
    scored, loss = TOKEN_LOSSES[name]
    if wrong == scored:
        return
    error = refused(loss(), wrong)
    assert (error.weight, error.denominator) == (wrong, scored)
    assert f"{wrong}" in error.summary
    assert f"{scored}" in error.summary


def test_an_unshifted_label_count_is_recognized() -> None:
    assert "shifted" in refused(causal(), SCORED).hint


def test_a_loss_divided_by_the_count_of_its_window_is_called_a_share() -> None:
    error = refused(causal(divide_by=3 * SHIFTED), SHIFTED)
    assert error.denominator == 3 * SHIFTED
    assert "loss_is='share'" in error.hint


def test_class_weights_have_to_be_summed() -> None:
    weight, target = torch.tensor([0.1, 0.2, 0.7, 1.3, 2.2]), labels()
    total = float(weight[target[MASK]].sum())

    def loss() -> Tensor:
        return F.cross_entropy(put_out(B, T, C).transpose(1, 2), target, weight=weight)

    assert refused(loss(), SCORED).denominator == pytest.approx(total, rel=1e-6)  # float32 sums in two orders
    assert checked(loss(), total).startswith("equals")


def test_large_counts_are_told_apart_and_shown_in_full() -> None:
    tokens = 1_234_567
    loss = (put_out(1, 1) * torch.ones(1)).expand(tokens, 1)
    log_p = torch.cat([loss, loss], 1).log_softmax(-1)
    error = refused(F.nll_loss(log_p, torch.zeros(tokens, dtype=torch.long)), tokens + 1)
    assert "1234568" in error.summary
    assert "1234567 (" in error.summary


UNDIVIDED: dict[str, Loss] = {
    "cross entropy": lambda: cross_entropy(reduction="sum"),
    "picked": lambda: torch.sum(picked_losses() * MASK),
    "mse": lambda: F.mse_loss(put_out(B, C), torch.ones(B, C), reduction="sum"),
    "squares": lambda: (put_out(B, C) - 1).square().sum(),
    "gaussian": lambda: F.gaussian_nll_loss(put_out(B), torch.ones(B), torch.ones(B), reduction="sum"),
    "twice": lambda: 2 * put_out(B, C).abs().sum(),
    "by rows": lambda: put_out(B, C).abs().sum(1).sum(),
    "autoencoder": lambda: (
        F.binary_cross_entropy_with_logits(put_out(B, C), torch.ones(B, C), reduction="sum") + put_out(B, C).exp().sum()
    ),
}


@pytest.mark.parametrize("name", UNDIVIDED)
def test_an_undivided_sum_is_no_mean(name: str) -> None:
    error = refused(UNDIVIDED[name](), B)
    assert "undivided sum" in error.summary
    assert error.weight == B
    assert checked(UNDIVIDED[name](), B, "sum").startswith("a sum, as declared")


MEANS: dict[str, Loss] = {
    "cross entropy": cross_entropy,
    "squares": lambda: put_out(B, C).square().mean(),
    "rows": lambda: put_out(B, C).square().sum(1).mean(),
    "by hand": lambda: (picked_losses() * MASK).sum() / MASK.sum(),
    "by hand over outputs": lambda: put_out(B, C).square().sum() / (B * C),
    "by hand over examples": lambda: put_out(B, C).square().sum() / B,
    "batch mean of rows": lambda: put_out(B, C).square().mean(0).sum(),
    "two tasks": lambda: cross_entropy() + 0.3 * put_out(B, C).square().mean(),
    "loop": lambda: sum(put_out(T).square().mean() for _ in range(B)) / B,
}


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_no_sum(name: str) -> None:
    assert "loss_is='sum' was declared" in refused(MEANS[name](), B, "sum").summary


def test_a_mean_over_one_is_a_sum_too() -> None:
    assert checked(put_out(1, 1).mean(), 1, "sum").startswith("a sum, as declared")


@pytest.mark.parametrize(
    "loss",
    [
        lambda: put_out(B, T).square().mean(1).sum(),
        lambda: sum(put_out(n).square().mean() for n in (6, 3, 5, 2)),
        lambda: 0.5 * put_out(B, C).square().sum(),
        lambda: cross_entropy(reduction="sum") + put_out(B, C).square().mean(),
        lambda: cross_entropy(reduction="sum") / (5 * SCORED),
    ],
)
def test_a_sum_over_examples_of_what_each_averages_is_a_sum(loss: Loss) -> None:
    assert checked(loss(), B, "sum").startswith("a sum, as declared")


EXAMPLE_LOSSES: dict[str, Loss] = {
    "classes": lambda: F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3])),
    "rows": lambda: put_out(B, C).square().sum(1).mean(),
    "sum by batch": lambda: (picked_losses() * MASK).sum() / B,
    "kl by batchmean": lambda: F.kl_div(put_out(B, T, C).log_softmax(-1), torch.rand(B, T, C), reduction="batchmean"),
    "distillation": lambda: F.kl_div(put_out(B, C).log_softmax(-1), torch.rand(B, C), reduction="batchmean") * 16.0,
    "half sum by batch": lambda: 0.5 * put_out(B, C).square().sum() / B,
    "vae": lambda: (
        F.mse_loss(put_out(B, C), torch.ones(B, C), reduction="sum") / B
        - 0.5 * torch.sum(1 + put_out(B, 2) - put_out(B, 2).exp()) / B
    ),
    "sequence means": lambda: torch.mean((picked_losses() * MASK).sum(1) / MASK.sum(1)),
    "full sequence means": lambda: picked_losses().mean(1).mean(),
    "sequence means, summed by batch": lambda: picked_losses().mean(-1).sum() / B,
    "loop": lambda: sum(F.cross_entropy(put_out(n, C), torch.zeros(n, dtype=torch.long)) for n in LENGTHS.tolist()) / B,
    "stacked loop": lambda: torch.stack([F.mse_loss(put_out(n), torch.ones(n)) for n in LENGTHS.tolist()]).mean(),
    "two heads": lambda: (
        (F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3])) + F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3])))
        / 2
    ),
    "ctc": lambda: F.ctc_loss(
        put_out(T, B, C).log_softmax(-1), torch.ones(B, 2, dtype=torch.long), torch.full((B,), T), torch.tensor([2, 1, 2, 1])
    ),
    "critic": lambda: -put_out(B, 1).mean(),
    "hinge of a critic": lambda: (1 - put_out(B, 1)).relu().mean() + (1 + put_out(B, 1)).relu().mean(),
    "info nce": lambda: F.cross_entropy(F.normalize(put_out(B, C)) @ F.normalize(put_out(B, C)).T / 0.07, torch.arange(B)),
    "energy": lambda: -put_out(B, C).logsumexp(-1).mean(),
    "shape (1,)": lambda: put_out(B, 1).mean(0),
    "double": lambda: put_out(B, 1).double().square().mean(),
    "relative norm": lambda: torch.mean(put_out(B, C).norm(dim=1) / torch.rand(B)),
    "detached part": lambda: put_out(B).mean() + put_out(B, C).square().mean().detach(),
    "learned scale": lambda: (
        torch.zeros((), requires_grad=True).neg().exp() * F.mse_loss(put_out(B), torch.ones(B))
        + torch.zeros((), requires_grad=True)
    ),
    "unused parameters": lambda: put_out(B).mean() + 0.0 * torch.randn(3, requires_grad=True).sum(),
}


@pytest.mark.parametrize("name", EXAMPLE_LOSSES)
def test_examples_are_accepted_where_the_loss_is_a_mean_over_them(name: str) -> None:
    assert checked(EXAMPLE_LOSSES[name](), B).startswith("equals the loss's denominator (")


PROPORTIONS: dict[str, tuple[float, Loss]] = {
    "outputs": (C, lambda: F.mse_loss(put_out(B, C), torch.ones(B, C))),
    "outputs by hand": (C, lambda: (put_out(B, C) - 1).square().sum() / (B * C)),
    "half": (C, lambda: 0.5 * put_out(B, C).square().mean()),
    "patches": (9, lambda: F.binary_cross_entropy_with_logits(put_out(B, 1, 3, 3), torch.ones(B, 1, 3, 3))),
    "masked outputs": (T - 1, lambda: (put_out(B, T).square() * (torch.arange(T) > 0)).sum() / (B * (T - 1))),
    "kl": (C, lambda: F.kl_div(put_out(B, C).log_softmax(-1), torch.zeros(B, C), log_target=True)),
    "pairs": (B, lambda: torch.cdist(put_out(B, C), put_out(B, C)).mean()),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", PROPORTIONS)
def test_examples_are_in_proportion_to_a_mean_over_outputs(name: str) -> None:
    each, loss = PROPORTIONS[name]
    assert checked(loss(), B) == f"in proportion: the loss is a mean over {each} elements for each unit of weight"


UNREAD: dict[str, Loss] = {
    "root of a mean": lambda: put_out(B, C).square().mean().sqrt(),
    "weights that add up to 1": lambda: torch.sum(picked_losses() * (MASK / MASK.sum(1, keepdim=True) / B)),
    "dice": lambda: 1 - 2 * (put_out(B, T).sigmoid() * MASK).sum() / (put_out(B, T).sigmoid().sum() + MASK.sum()),
    "energy of a batch": lambda: put_out(B).logsumexp(0),
    "flooded": lambda: (put_out(B, C).square().mean() - 0.1).abs() + 0.1,
    "unread besides a token loss": lambda: cross_entropy() + put_out(B, C).std(),
    "relative error of a batch": lambda: put_out(B, C).square().sum() / torch.full((B, C), 0.123).square().sum(),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_the_graph_does_not_tell_is_not_checked(name: str) -> None:
    for weight in (B, B * T, 17):
        assert checked(UNREAD[name](), weight).startswith("not checked: ")


def test_what_is_known_of_an_unread_loss_is_said() -> None:
    assert f"NllLoss2DBackward0 is over {SCORED}" in checked(UNREAD["unread besides a token loss"](), B)


def classes() -> Tensor:
    return F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3]))


def test_the_most_important_term_is_what_a_weight_is_for() -> None:
    text = checked(cross_entropy() + 0.3 * classes(), SCORED)
    assert text == "equals the loss's denominator (NllLoss2DBackward0); besides, NllLossBackward0 is over 4"
    assert refused(cross_entropy() + 0.3 * classes(), B).denominator == SCORED
    assert checked(0.3 * cross_entropy() + classes(), B).startswith("equals")
    assert refused(0.3 * cross_entropy() + classes(), SCORED).denominator == B


def test_a_mean_by_hand_is_as_important_as_any() -> None:
    assert refused((picked_losses() * MASK).sum() / SCORED + 0.3 * put_out(B, C).square().mean(), B).denominator == SCORED


def test_of_equally_important_terms_scores_and_then_undivided_sums_are_judged() -> None:
    squares = put_out(B, C).square()
    assert refused(squares.mean() + cross_entropy(), B).denominator == SCORED
    assert "undivided" in refused(squares.mean() + squares.exp().sum(), B).summary


@pytest.mark.parametrize("weight", [SCORED, B])
def test_of_two_equally_important_terms_either_is_what_the_weight_is_for(weight: int) -> None:
    assert f"is over {B + SCORED - weight}" in checked(cross_entropy() + classes(), weight)


def test_a_token_loss_is_judged_beside_a_less_important_part_that_is_not_read() -> None:
    unread = put_out(B, C).std()
    assert refused(cross_entropy() + 0.01 * unread, B).denominator == SCORED
    assert checked(cross_entropy() + 0.01 * unread, SCORED).endswith("besides, the graph does not tell of StdBackward0")
    assert checked(0.1 * cross_entropy() + unread, B).startswith("not checked")


@pytest.mark.parametrize("reduced", [torch.sum, torch.mean])
def test_stacked_scalars_that_are_not_read_are_refused_nothing(reduced: Callable[[Tensor], Tensor]) -> None:
    roots = torch.stack([put_out(B, C).square().mean().sqrt() for _ in range(3)])
    assert checked(reduced(roots), B).startswith("not checked")
    assert reduced is torch.sum or checked(reduced(roots), 3).startswith("equals")


def test_the_factors_that_a_mean_carries_are_said() -> None:
    assert checked(0.3 * cross_entropy(), SCORED).endswith("carries the factors 0.3")


def test_a_proportion_has_to_last_within_an_attempt_and_not_beyond() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    for outputs in (3, 7, 3):  # a window of one is a mean by itself, whatever it is over
        check(put_out(4, outputs).mean(), 4)
        check.close()
    check(put_out(4, 3).mean(), 4)
    check(put_out(2, 3).mean(), 2)
    with pytest.raises(WeightError, match="mean over 14 elements at a weight of 2, and before over 3"):
        check(put_out(2, 7).mean(), 2)


def test_pairs_may_grow_as_the_square_of_the_examples() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    for examples in (8, 8, 3):
        check(torch.cdist(put_out(examples, C), put_out(examples, C)).mean(), examples)
    with pytest.raises(WeightError):
        check(put_out(3, 5).mean(), 3)


def test_a_weight_that_is_equal_by_chance_is_found_out_by_the_next_microbatch() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    check(put_out(4, 1).mean(), 4)
    with pytest.raises(WeightError, match="mean over 28 elements at a weight of 4"):
        check(put_out(4, 7).mean(), 4)


def test_a_proportion_beside_a_microbatch_that_is_settled_has_to_last_all_the_same() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    check(put_out(4, 3).mean(), 4)
    check(put_out(4, 3).std(), 4)
    check.close()
    check(put_out(4, 3).mean(), 4)
    with pytest.raises(WeightError):
        check(put_out(4, 7).mean(), 4)


def test_an_equal_weight_is_read_in_the_first_attempt_only(monkeypatch: pytest.MonkeyPatch) -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    check(cross_entropy(), SCORED)
    check.close()
    monkeypatch.setattr("truestep.engine.weight_check.read_loss", None)
    check(cross_entropy(), B)
    assert check.text.startswith("equals")


def test_an_attempt_that_checked_nothing_leaves_the_check_open() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    check.close()  # all weights were 0
    with pytest.raises(WeightError):
        check(cross_entropy(), B)
    check.close()  # the user caught the error, and tries again
    with pytest.raises(WeightError):
        check(cross_entropy(), B)


def test_a_refusal_after_an_accepted_microbatch_leaves_the_check_open() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    for _ in range(2):
        check(cross_entropy(), SCORED)
        with pytest.raises(WeightError):
            check(cross_entropy(), B)
        check.close()


def test_a_microbatch_of_which_nothing_is_left_settles_nothing() -> None:
    check = WeightCheck("mean", declared=True, wanted=True)
    nothing = torch.zeros(B, T)
    check((picked_losses() * nothing).sum() / nothing.sum(), B)
    assert check.text == "not checked: the graph does not tell (no reduction in it)"
    check.close()
    with pytest.raises(WeightError):
        check(cross_entropy(), B)


def test_the_first_refusal_is_not_the_last() -> None:
    model = nn.Linear(3, C)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, x: F.cross_entropy(model(x).transpose(1, 2), torch.zeros(x.shape[:2], dtype=torch.long)),
    )
    for _ in range(2):
        with pytest.raises(WeightError, match="weight is 2, and the loss is a mean over 8"):
            update([torch.randn(2, 4, 3)])


def test_shares_and_a_check_that_is_not_wanted_are_not_read() -> None:
    assert checked(cross_entropy(), B, "share") == "not checked: a share has no denominator of its own"
    check = WeightCheck("mean", declared=True, wanted=False)
    check(cross_entropy(), B)
    assert check.text == "not checked: switched off"
