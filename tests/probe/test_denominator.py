"""Reading a loss's denominator off its graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tests.probe.losses import CLASSES, EXAMPLES, MASK, SCORED, TOKENS, labels, picked_losses, put_out, token_losses
from truestep.probe.denominator import LIMIT, read_loss
from truestep.probe.term import Term

B, T, C = EXAMPLES, TOKENS, CLASSES


def only_term(loss: Tensor) -> Term:
    reading = read_loss(loss)
    assert reading.unread is None
    assert len(reading.terms) == 1, reading.terms
    return reading.terms[0]


def row() -> Tensor:
    return put_out(B, 1).squeeze(1)


def signs() -> Tensor:
    return torch.tensor([1.0, -1.0, 1.0, -1.0])


# What each loss is a mean over. Means over outputs count outputs, losses of a row of outputs count rows.
FUNCTIONALS: dict[str, tuple[int, Callable[[str], Tensor]]] = {
    "l1": (B * C, lambda how: F.l1_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "mse": (B * C, lambda how: F.mse_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "mse of a constant": (B * C, lambda how: F.mse_loss(torch.ones(B, C), put_out(B, C), reduction=how)),
    "weighted mse": (B * C, lambda how: F.mse_loss(put_out(B, C), torch.ones(B, C), reduction=how, weight=torch.ones(B, C))),
    "smooth l1": (B * C, lambda how: F.smooth_l1_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "smooth l1, beta 0": (B * C, lambda how: F.smooth_l1_loss(put_out(B, C), torch.ones(B, C), reduction=how, beta=0.0)),
    "huber": (B * C, lambda how: F.huber_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "soft margin": (B * C, lambda how: F.soft_margin_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "bce": (B * C, lambda how: F.binary_cross_entropy(put_out(B, C).sigmoid(), torch.ones(B, C), reduction=how)),
    "bce with logits": (B * C, lambda how: F.binary_cross_entropy_with_logits(put_out(B, C), torch.ones(B, C), reduction=how)),
    "kl": (B * C, lambda how: F.kl_div(put_out(B, C).log_softmax(-1), torch.rand(B, C), reduction=how)),
    "kl of log targets": (
        B * C,
        lambda how: F.kl_div(put_out(B, C).log_softmax(-1), torch.randn(B, C), reduction=how, log_target=True),
    ),
    "poisson": (B * C, lambda how: F.poisson_nll_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "full poisson": (B * C, lambda how: F.poisson_nll_loss(put_out(B, C), torch.full((B, C), 3.0), full=True, reduction=how)),
    "gaussian": (B, lambda how: F.gaussian_nll_loss(row(), torch.ones(B), row().exp(), reduction=how)),
    "hinge embedding": (B, lambda how: F.hinge_embedding_loss(row(), signs(), reduction=how)),
    "margin ranking": (B, lambda how: F.margin_ranking_loss(row(), row(), signs(), reduction=how)),
    "cosine embedding": (B, lambda how: F.cosine_embedding_loss(put_out(B, C), put_out(B, C), signs(), reduction=how)),
    "triplet": (B, lambda how: F.triplet_margin_loss(put_out(B, C), put_out(B, C), put_out(B, C), reduction=how)),
    "triplet with distance": (
        B,
        lambda how: F.triplet_margin_with_distance_loss(put_out(B, C), put_out(B, C), put_out(B, C), reduction=how, swap=True),
    ),
    "multi margin": (B, lambda how: F.multi_margin_loss(put_out(B, C), torch.tensor([0, 1, 2, 3]), reduction=how)),
    "multilabel margin": (
        B,
        lambda how: F.multilabel_margin_loss(put_out(B, C), torch.tensor([[0, 2, -1, 0, 0]] * B), reduction=how),
    ),
    "multilabel soft margin": (B, lambda how: F.multilabel_soft_margin_loss(put_out(B, C), torch.ones(B, C), reduction=how)),
    "ctc": (
        B,
        lambda how: F.ctc_loss(
            put_out(T, B, C).log_softmax(-1),
            torch.ones(B, 2, dtype=torch.long),
            torch.full((B,), T),
            torch.tensor([2, 1, 2, 1]),
            reduction=how,
        ),
    ),
    "nll": (B, lambda how: F.nll_loss(put_out(B, C).log_softmax(-1), torch.tensor([0, 1, 2, 3]), reduction=how)),
    "cross entropy": (SCORED, lambda how: F.cross_entropy(put_out(B, T, C).transpose(1, 2), labels(), reduction=how)),
    "flat cross entropy": (SCORED, lambda how: F.cross_entropy(put_out(B, T, C).view(-1, C), labels().view(-1), reduction=how)),
    "soft cross entropy": (B, lambda how: F.cross_entropy(put_out(B, C), torch.rand(B, C), reduction=how)),
    "linear cross entropy": (
        SCORED,
        lambda how: F.linear_cross_entropy(put_out(B * T, 3), put_out(C, 3), labels().view(-1), ignore_index=-100, reduction=how),
    ),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", FUNCTIONALS)
def test_the_mean_of_a_functional_loss_is_over_what_it_averages(name: str) -> None:
    count, loss = FUNCTIONALS[name]
    term = only_term(loss("mean"))
    assert count in term.denominators
    assert not term.undivided


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_the_sum_of_a_functional_loss_is_undivided(name: str) -> None:
    assert only_term(FUNCTIONALS[name][1]("sum")).undivided


@pytest.mark.parametrize("name", [name for name in FUNCTIONALS if name != "ctc"])
def test_the_mean_by_hand_of_a_functional_loss_is_over_its_elements(name: str) -> None:
    count, loss = FUNCTIONALS[name]
    elements = loss("none")
    assert elements.numel() in only_term(elements.mean()).denominators
    if not only_term(loss("sum")).scored:
        assert count in only_term(elements.sum() / count).denominators


def test_kl_divergence_by_batchmean_is_over_the_batch() -> None:
    assert only_term(F.kl_div(put_out(B, C).log_softmax(-1), torch.rand(B, C), reduction="batchmean")).is_over(B)


@pytest.mark.parametrize("losses", [token_losses, picked_losses])
@pytest.mark.parametrize(
    "reduced",
    [
        lambda loss: loss[MASK].mean(),
        lambda loss: loss.masked_select(MASK).mean(),
        lambda loss: (loss * MASK).sum() / MASK.sum(),
        lambda loss: (loss * MASK.float()).sum() * (1.0 / SCORED),
        lambda loss: torch.where(MASK, loss, 0.0).sum() / SCORED,
        lambda loss: loss.masked_fill(~MASK, 0.0).sum() / MASK.sum().clamp(min=1),
        lambda loss: (loss * MASK).view(-1).sum(dim=0, keepdim=True).squeeze() / (MASK.sum() + 1e-5),
        lambda loss: (loss * MASK / MASK.sum()).sum(),
        lambda loss: (loss * (MASK / MASK.sum())).sum(),
        lambda loss: (loss * MASK).sum(1).sum() / SCORED,
        lambda loss: (loss * MASK).mean() / MASK.float().mean(),
        lambda loss: (loss[:, :] * MASK).flatten().unsqueeze(0).sum(-1).div(SCORED)[0],
        lambda loss: torch.nanmean(torch.where(MASK, loss, math.nan)),
    ],
)
def test_a_masked_mean_of_token_losses_is_over_the_tokens_in_the_mask(losses, reduced) -> None:
    term = only_term(reduced(losses()))
    assert term.scored
    assert term.is_over(SCORED)
    assert not any(term.is_over(wrong) for wrong in (B, B * T, SCORED + B, SCORED - B, 1))


def test_class_weights_make_a_mean_over_their_sum() -> None:
    torch.manual_seed(0)  # drawn otherwise, the weights of the labels add up to their number now and then
    weight, target = torch.tensor([0.1, 0.2, 0.7, 1.3, 2.2]), labels()
    term = only_term(F.cross_entropy(put_out(B, T, C).transpose(1, 2), target, weight=weight))
    assert term.is_over(float(weight[target[MASK]].sum()))
    assert not term.is_over(SCORED)


@pytest.mark.parametrize("ignored", [-100, 0])
def test_label_smoothing_has_two_terms_over_the_same_targets(ignored: int) -> None:
    target = labels(ignored)
    loss = F.cross_entropy(put_out(B, T, C).transpose(1, 2), target, ignore_index=ignored, label_smoothing=0.1)
    reading = read_loss(loss)
    assert len(reading.terms) == 2
    assert all(term.scored and term.is_over(int((target != ignored).sum())) for term in reading.terms)
    assert not any(term.is_over(B) for term in reading.terms)


@pytest.mark.parametrize(
    "picked",
    [
        lambda logits, target: logits.log_softmax(-1)[torch.arange(B * T), target],
        lambda logits, target: logits.gather(1, target[:, None]).squeeze(1) - logits.logsumexp(-1),
        lambda logits, target: logits.softmax(-1).gather(1, target[:, None])[:, 0].log(),
        lambda logits, target: torch.take_along_dim(logits.log_softmax(-1), target[:, None], 1),
        lambda logits, target: (logits.log_softmax(-1) * F.one_hot(target, C)).sum(-1),
        lambda logits, target: torch.distributions.Categorical(logits=logits).log_prob(target),
        lambda logits, target: -F.nll_loss(logits.log_softmax(-1), target, reduction="none"),
        lambda logits, target: (
            (1 - logits.log_softmax(-1).gather(1, target[:, None]).exp()) ** 2 * logits.log_softmax(-1).gather(1, target[:, None])
        ),
    ],
)
def test_scores_of_targets_are_known_however_they_are_picked(picked) -> None:
    term = only_term(-picked(put_out(B * T, C), torch.randint(0, C, (B * T,))).mean())
    assert term.scored
    assert term.denominators == (B * T,)


@pytest.mark.parametrize(
    "elements",
    [
        lambda: put_out(B, T),
        lambda: put_out(B, T).square(),
        lambda: put_out(B, T).gather(1, torch.zeros(B, 2, dtype=torch.long)),
        lambda: F.mse_loss(put_out(B, T).gather(1, torch.zeros(B, 2, dtype=torch.long)), torch.ones(B, 2), reduction="none"),
        lambda: (put_out(B, T).softmax(-1) * torch.arange(float(T))).sum(-1),
        lambda: put_out(B, T).log_softmax(-1),
        lambda: put_out(B, T).gather(1, torch.zeros(B, 2, dtype=torch.long)).log_softmax(-1),
        lambda: put_out(B, T).logsumexp(-1),
    ],
)
def test_other_elements_are_no_scores(elements) -> None:
    assert not only_term(elements().mean()).scored


@pytest.mark.parametrize(
    ("reduced", "counts"),
    [
        (lambda x: x.mean(), {B * T}),
        (lambda x: x.mean(-1).mean(), {B, T, B * T}),
        (lambda x: x.mean(-1, keepdim=True).mean(0), {B, T, B * T}),
        (lambda x: x.mean((-1, -2)), {B * T}),
        (lambda x: x.sum(-1).mean(), {B}),
        (lambda x: x.mean(0).sum(), {B}),
        (lambda x: x.flatten().sum() / (B * T), {B * T}),
        (lambda x: x.sum() / B / T, {B * T, B, T}),
        (lambda x: 0.25 * x.mean(), {B * T}),
        (lambda x: x.mean() / 3 * torch.tensor(0.5), {B * T}),
        (lambda x: x.sum().div(100).mul(0.5), {100}),
        (lambda x: -x.double().mean().float().view(1, 1)[0], {B * T}),
        (lambda x: x.half().float().mean().reshape(1), {B * T}),
        (lambda x: sum(part.mean() for part in x) / B, {B, T, B * T}),
        (lambda x: torch.stack([part.mean() for part in x]).mean(), {B, T, B * T}),
        (lambda x: torch.cat([part.mean().view(1) for part in x.unbind()]).mean(), {B, T, B * T}),
        (lambda x: (x * torch.rand(B, T)).mean(), {B * T}),
        (lambda x: (x.sum(1) / torch.tensor([6, 3, 5, 2])).mean(), {B}),
        (lambda x: torch.ones(()) + x.mean() - x.detach().mean(), {B * T}),
        (lambda x: x.mean().mean().sum(), {B * T}),
    ],
)
def test_a_mean_is_over_its_elements_however_it_is_written(reduced, counts: set[int]) -> None:
    term = next(iter(read_loss(reduced(put_out(B, T))).terms))
    assert {count for count in range(2, 101) if term.is_over(count)} >= counts
    assert not any(term.is_over(wrong) for wrong in (5, 7, 23, 25))


STEPS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.mean(-1),
    lambda x: x.mean(0, keepdim=True),
    lambda x: x.sum(-1),
    lambda x: x.sum(0, keepdim=True),
    lambda x: x.mean(),
    lambda x: x.sum(),
    lambda x: -x,
    lambda x: 1 - x,
    lambda x: 0.25 * x,
    lambda x: x / 3,
    lambda x: x * torch.tensor(5),
    lambda x: x / torch.full(x.shape, 7.0),
    lambda x: x * (torch.arange(x.numel()).view(x.shape) % 3 < 2),
    lambda x: x.masked_fill(torch.arange(x.numel()).view(x.shape) % 4 == 3, 0.0),
    lambda x: x.reshape(-1)[::2],
    lambda x: x.double(),
    lambda x: x.reshape(-1, 1).squeeze(-1),
    lambda x: torch.stack([x, torch.zeros_like(x)]),
    lambda x: x + torch.ones_like(x),
    lambda x: torch.add(torch.ones_like(x), x, alpha=2),
]


@given(st.lists(st.sampled_from(STEPS), max_size=8), st.sampled_from([torch.sum, torch.mean]))
def test_what_is_read_is_what_autograd_gives_each_element(steps: list[Callable[[Tensor], Tensor]], last) -> None:
    elements = put_out(3, 4).exp()
    x = elements
    for step in steps:
        x = step(x) if x.dim() else x * 2
    loss = last(x) if x.dim() else x
    (gradient,) = torch.autograd.grad(loss, elements, retain_graph=True)
    term = only_term(loss)
    # At most 9 steps, each rounding once in float32
    assert gradient[gradient != 0].abs().double() == pytest.approx(term.scale / math.prod(term.divisors), rel=9 * 2.0**-23)


def test_of_the_constants_above_a_sum_the_largest_belongs_to_the_denominator() -> None:
    term = only_term(put_out(B, T).square().sum() / 100 / 4)
    assert (term.is_over(100), term.is_over(400), term.is_over(4)) == (True, True, False)


def test_what_parts_of_the_elements_are_multiplied_by_is_their_own() -> None:
    term = only_term((0.5 * put_out(B, T) + put_out(B, T).exp() / 8).sum())
    assert term.undivided
    assert not term.is_over(2)
    assert only_term((put_out(B, T) / 100 + put_out(B, T).exp() / 100).sum()).is_over(100)


def test_elements_are_counted_only_where_that_tells_something() -> None:
    assert only_term(0.5 * put_out(B, T).mean()).elements is None
    assert only_term(put_out(B, T).sum()).elements is None
    assert only_term(put_out(B, T).sum() / 3).elements == B * T
    assert only_term((put_out(B, T) * MASK).mean() / MASK.float().mean()).by_hand == SCORED


def test_elements_behind_an_operation_of_several_outputs_are_not_counted() -> None:
    term = only_term(torch.stack(token_losses().unbind()).sum() / (B * T))
    assert (term.elements, term.denominator) == (None, B * T)


def test_the_sum_of_one_score_is_undivided() -> None:
    assert only_term(F.cross_entropy(put_out(1, C), torch.tensor([1]), reduction="sum")).undivided


def test_a_mean_of_which_constants_are_left_is_not_over_them() -> None:
    assert not only_term(F.cross_entropy(put_out(B * T, C), labels(0).view(-1)) / B).is_over(B)


@pytest.mark.parametrize(
    ("penalty", "terms"),
    [
        (lambda w, b: 1e-2 * w.square().sum(), 1),
        (lambda w, b: 1e-2 * sum(p.abs().mean() for p in (w, b)), 1),
        (lambda w, b: w.norm() + torch.linalg.vector_norm(b), 1),
        (lambda w, b: torch.stack([w.norm(), b.norm()]).norm(), 1),
        (lambda w, b: ((w - 1) ** 2 * torch.rand(3, 3)).sum(), 1),
        (lambda w, b: 0.0 * (w.sum() + b.sum()), 1),
        (lambda w, b: b[0], 1),
    ],
)
def test_a_penalty_on_parameters_is_no_term(penalty, terms: int) -> None:
    w, b = torch.randn(3, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    reading = read_loss(F.cross_entropy(torch.randn(B, 3) @ w + b, torch.tensor([0, 1, 2, 0])) + penalty(w, b))
    assert (len(reading.terms), reading.unread) == (terms, None)


def test_a_penalty_alone_is_a_term() -> None:
    assert only_term(torch.randn(3, requires_grad=True).square().mean()).is_over(3)


def test_learned_factors_are_passed() -> None:
    s = torch.zeros(2, requires_grad=True)
    loss = s[0].neg().exp() * F.mse_loss(put_out(B, C), torch.ones(B, C)) + s[0]
    loss = loss + F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3])) / (2 * s[1].exp() ** 2) + s.log1p().sum()
    reading = read_loss(loss)
    assert [term.denominator for term in reading.terms] == [B * C, B]
    assert reading.unread is None


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda: put_out(B, T).square().mean().sqrt(), "SqrtBackward0"),
        (lambda: put_out(B).logsumexp(0), "LogsumexpBackward0"),
        (lambda: put_out(B, T).norm(), "LinalgVectorNormBackward0"),
        (lambda: put_out(B, T).std(), "StdBackward0"),
        (lambda: put_out(B, T).mean() * put_out(B, T).mean(), "MulBackward0"),
        (lambda: put_out(B, T).sum() / (put_out(B, T).exp().sum()), "DivBackward0"),
        (lambda: 1 / put_out(B, T).mean(), "ReciprocalBackward0"),
        (lambda: torch.ones(()) / put_out(B, T).mean(), "DivBackward0"),
        (lambda: torch.maximum(put_out(B, T).mean(), put_out(B, T).mean()), "MaximumBackward0"),
        (lambda: torch.sum(put_out(3) * torch.tensor([0.2, 0.3, 0.5])), "MvBackward0"),
        (lambda: put_out(1)[0], "SelectBackward0"),
    ],
)
def test_what_is_not_linear_ends_the_reading_by_its_name(loss, name: str) -> None:
    assert read_loss(loss()).terms == ()
    assert read_loss(loss()).unread is not None


class Sum(torch.autograd.Function):
    """A custom function whose name is that of PyTorch's own."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.shape, ctx._saved_reduction = x.shape, 1
        return x.mean()

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad.expand(ctx.shape) / math.prod(ctx.shape)


def test_a_custom_function_is_not_read_whatever_its_name() -> None:
    reading = read_loss(Sum.apply(put_out(B, T)) / 3)
    assert (reading.terms, reading.unread) == ((), "SumBackward")


def test_the_losses_that_data_parallel_gathered_are_not_read() -> None:
    class Gather(torch.autograd.Function):
        """Named as torch.nn.parallel's."""

        @staticmethod
        def forward(ctx, *losses: Tensor) -> Tensor:
            return torch.stack(losses)

        @staticmethod
        def backward(ctx, grad: Tensor) -> tuple[Tensor, ...]:
            return grad.unbind()

    assert read_loss(Gather.apply(put_out(B).mean(), put_out(B).mean()).mean()).terms == ()


def test_elements_of_a_custom_function_may_be_averaged() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx, grad: Tensor) -> Tensor:
            return 2 * grad

    assert only_term(Double.apply(put_out(B, T)).mean()).is_over(B * T)


def test_a_loss_without_a_reduction_has_no_denominator() -> None:
    assert read_loss(torch.zeros((), requires_grad=True)).denominators == ()
    assert read_loss(torch.zeros(1, requires_grad=True)[0]).denominators == ()


def test_reading_leaves_the_backward_as_it_was() -> None:
    def gradients(*, read: bool) -> list[Tensor]:
        torch.manual_seed(0)
        weight = torch.randn(3, C, requires_grad=True)
        logits = torch.randn(B, T, 3) @ weight
        kept = F.cross_entropy(logits.transpose(1, 2), labels(0), reduction="none")
        kept.retain_grad()
        loss = (kept * MASK).sum() / MASK.sum()
        if read:
            read_loss(loss)
        loss.backward()
        return [weight.grad, kept.grad]

    assert all(torch.equal(a, b) for a, b in zip(gradients(read=True), gradients(read=False), strict=True))


def test_reading_runs_no_hook() -> None:
    ran = []
    loss = picked_losses()
    loss.register_hook(ran.append)
    mean = (loss * MASK).sum() / SCORED
    mean.register_hook(ran.append)
    assert only_term(mean).elements == SCORED
    assert ran == []


def once(packed: list[Tensor]) -> Tensor:
    return packed.pop()


def test_what_a_hook_packed_is_left_to_backward() -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: [tensor], once):
        elements = token_losses().masked_fill(~MASK, 0.0)
        loss = F.cross_entropy(put_out(B, C), torch.tensor([0, 1, 2, 3])) + elements.sum() / torch.tensor(SCORED)
    reading = read_loss(loss)
    assert (reading.terms, reading.unread) == ((), "a hook packed what NllLossBackward0 saved")
    term = only_term(elements.sum() / SCORED)
    assert (term.denominator, term.elements) == (SCORED, None)
    loss.backward()


def test_a_loss_inside_of_a_checkpoint_is_not_computed_again() -> None:
    ran = []

    def chunk(x: Tensor) -> Tensor:
        ran.append(x)
        return F.cross_entropy(x * 2, torch.zeros(B, dtype=torch.long))

    loss = torch.utils.checkpoint.checkpoint(chunk, put_out(B, C), use_reentrant=False)
    assert read_loss(loss).unread == "a hook packed what NllLossBackward0 saved"
    assert len(ran) == 1
    loss.backward()


def test_a_loss_of_a_model_whose_activations_are_packed_is_read() -> None:
    layer, head = torch.nn.Linear(3, 3), torch.nn.Linear(3, C)
    with torch.autograd.graph.save_on_cpu():
        hidden = layer(torch.randn(B, T, 3)).relu()
    hidden = torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)
    assert only_term(F.cross_entropy(head(hidden).transpose(1, 2), labels())).denominators == (SCORED,)


def test_a_reentrant_checkpoint_around_the_loss_is_not_read() -> None:
    loss = torch.utils.checkpoint.checkpoint(lambda x: x.square().mean(), put_out(B, C), use_reentrant=True)
    assert read_loss(loss).unread == "CheckpointFunctionBackward"


def test_shared_sums_are_visited_once() -> None:
    loss = put_out(B, T).mean()
    for _ in range(200):  # 2^200 ways, of which each node is on many
        loss = loss + loss
    assert only_term(loss).is_over(B * T)


def test_a_loss_of_thousands_of_terms_is_read_and_one_of_more_is_given_up() -> None:
    x = put_out(B, T)
    loss = sum(x[0].mean() for _ in range(3000)) / 3000
    assert all(term.is_over(3000) for term in read_loss(loss).terms)
    for _ in range(LIMIT):
        loss = loss + 1
    assert "more than" in (read_loss(loss).unread or "")


def test_a_long_chain_of_residual_sums_below_a_mean_is_one_term() -> None:
    x = put_out(B, T)
    for _ in range(500):
        x = x + x.tanh()
    assert only_term(x.mean()).is_over(B * T)


def test_a_low_precision_divisor_is_held_against_a_weight_at_its_own_precision() -> None:
    mask = torch.ones(1003, dtype=torch.bfloat16)  # bfloat16 has 8 bits: it cannot hold 1003
    loss = (put_out(1003).to(torch.bfloat16) * mask).sum() / mask.sum()
    assert only_term(loss).is_over(1003)
    assert not only_term(loss).is_over(1020)


def test_complex_outputs_and_double_precision_are_read() -> None:
    z = torch.complex(put_out(B, T), put_out(B, T))
    assert only_term((z * (1 + 2j)).abs().square().mean()).is_over(B * T)
    assert only_term(z.real.mean()).is_over(B * T)
    assert only_term(put_out(B, T).double().square().mean()).is_over(B * T)


def test_outputs_under_autocast_are_read_through_their_casts() -> None:
    weight = torch.randn(3, C, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        logits = torch.randn(B, 3) @ weight
        loss = F.cross_entropy(logits, torch.tensor([0, 1, -100, 3])) + F.mse_loss(logits, torch.ones(B, C).bfloat16())
    assert [term.denominator for term in read_loss(loss).terms] == [3, B * C]


def test_elements_that_were_written_in_place_are_read() -> None:
    loss = token_losses()
    loss[~MASK] = 0
    loss[0] = 0
    assert only_term(loss.sum() / (SCORED - T)).denominators == (SCORED - T,)


def test_a_division_by_nothing_is_read_as_one_by_zero() -> None:
    nothing = torch.zeros(B, T)
    assert read_loss((put_out(B, T) * nothing).sum() / nothing.sum()).denominators == ()
    assert only_term(put_out(B, T).sum() / nothing.sum()).denominator == 0
    assert only_term(put_out(B, T).mean() / 0).factor == math.inf
    assert only_term(put_out(B, T)[:0].mean()).denominators == (0.0,)


@pytest.mark.parametrize(
    "loss",
    [
        put_out(1, 1).mean(),
        put_out(1).squeeze().view(1).mean() * 3,
        F.mse_loss(put_out(1, 1), torch.ones(1, 1)),
        F.cross_entropy(put_out(1, C), torch.zeros(1, dtype=torch.long)),
        put_out(1, T).sum(1).mean(),
    ],
)
def test_a_microbatch_of_one_is_a_mean_over_one(loss: Tensor) -> None:
    assert only_term(loss).is_over(1)


def test_a_mean_of_a_scalar_says_nothing() -> None:
    assert not only_term(put_out(1, T).mean().mean().view(1).mean()).is_over(1)
    assert read_loss(put_out(B, T).norm().mean()).terms == ()


def test_jagged_tensors_are_not_read() -> None:
    jagged = torch.nested.nested_tensor([torch.randn(3), torch.randn(2)], layout=torch.jagged, requires_grad=True)
    assert read_loss((jagged * 2).sum()).unread == "SumBackwardAutogradNestedTensor0"
