"""A loss of several terms: each is a mean over its own total, and one backward serves them all."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import truestep
from tests.engine.loops import OPTIMIZERS, mlp, poisoned, same, weights
from truestep import LossScale, Reason
from truestep.errors import LossError, StateError, UpdateError, WeightError
from truestep.ledger import outcomes

U = 2.0**-24  # half a unit in the last place of float32
Scored = tuple[Tensor, Tensor]


def scored(n: int, count: int, seed: int = 0) -> Scored:
    """`n` examples with a label each, of which the first `count` are scored and the others ignored."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)
    y[count:] = -100
    return x, y


def window(*sizes: tuple[int, int]) -> list[Scored]:
    return [scored(n, count, seed) for seed, (n, count) in enumerate(sizes)]


def two_terms(model: nn.Module, data: Scored) -> dict[str, Tensor]:
    """A cross-entropy that is a mean over scored labels (0/0 where there are none), and a penalty that is one over examples."""
    logits = model(data[0])
    return {"labels": F.cross_entropy(logits, data[1]), "examples": 0.1 * logits.square().sum(1).mean()}


def two_weights(data: Scored) -> dict[str, object]:
    return {"labels": (data[1] >= 0).sum(), "examples": len(data[0])}


def updating(loss=two_terms, weight=two_weights, *, model: nn.Module | None = None, **options) -> truestep.Update:
    model = mlp() if model is None else model
    return truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, weight=weight, **options)


def by_hand(parts: list[Scored], *shares: tuple[float, float]) -> list[Tensor]:
    """The gradients of a loop that multiplies each term by its share, and leaves out those of share 0."""
    model = mlp()
    for data, (labels, examples) in zip(parts, shares, strict=True):
        terms = two_terms(model, data)
        (sum(terms[name] * share for name, share in (("labels", labels), ("examples", examples)) if share)).backward()
    return [p.grad for p in model.parameters()]


def gradients(update: truestep.Update) -> list[Tensor | None]:
    return [p.grad for p in update.plan.model.parameters()]


# The split law, for a linear model whose terms are means over unequal counts.


def linear_terms(model: nn.Module, data: tuple[Tensor, Tensor, Tensor]) -> dict[str, Tensor]:
    x, y, mask = data
    z = model(x).squeeze(1)
    each = F.binary_cross_entropy_with_logits(z, y, reduction="none")
    return {"scored": (each * mask).sum() / mask.sum(), "examples": 0.1 * z.square().mean()}


def linear_weights(data: tuple[Tensor, Tensor, Tensor]) -> dict[str, object]:
    return {"scored": data[2].sum(), "examples": len(data[0])}


def exact_and_bound(
    model: nn.Linear, x: Tensor, y: Tensor, mask: Tensor, parts: int, totals: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """The float64 gradient of sum(mask * bce) / W1 + sum(0.1 z^2) / W2, and how far a float32 one may lie from it.

    Example i contributes (mask_i (s(z_i) - y_i) / W1 + 0.2 z_i / W2) a_i with a_i = (x_i, 1). z has d + 1 products and sums, so
    that |dz| <= gamma(d + 2) * sum |w a|; s is 1/4-Lipschitz and costs 8 roundings at most, 0.2 z is 0.2-Lipschitz. Then each
    term goes through at most 10: two for the share, two for the mean's own division, two for the constant, one for the square,
    one where the terms meet at z, one for the product with a_i and one to spare; then the sum over n examples in any order, and
    `parts` additions into the accumulator.
    """

    def gamma(n: int) -> float:  # the error of n roundings one after the other (Higham 2002, lemma 3.1)
        return n * U / (1 - n * U)

    a = torch.cat([x, torch.ones(len(x), 1)], 1).double()
    w = torch.cat([model.weight[0], model.bias]).detach().double()
    z, dz = a @ w, gamma(x.shape[1] + 2) * (a.abs() @ w.abs())
    over_scored, over_examples = (1.0 / total if total else 0.0 for total in totals)
    first, second = mask.double() * (torch.sigmoid(z) - y.double()) * over_scored, 0.2 * z * over_examples
    error = mask.double() * (0.25 * dz + 8 * U) * over_scored + 0.2 * dz * over_examples
    sizes = first.abs() + second.abs()
    bound = ((error + gamma(len(x) + parts + 10) * sizes)[:, None] * a.abs()).sum(0)
    return ((first + second)[:, None] * a).sum(0), bound


@settings(deadline=None, max_examples=60)
@given(cuts=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=8), seed=st.integers(0, 10_000))
def test_every_split_gives_each_term_the_mean_over_its_own_total_within_the_derived_bound(cuts, seed: int) -> None:
    torch.manual_seed(seed)
    sizes = [n for n, _ in cuts]
    x, y = torch.randn(sum(sizes), 5), torch.randint(0, 2, (sum(sizes),)).float()
    mask = torch.cat([(torch.arange(n) < count).float() for n, count in cuts])
    model = nn.Linear(5, 1)
    totals = float(mask.sum()), float(len(x))
    exact, bound = exact_and_bound(model, x, y, mask, len(cuts), totals)
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=linear_terms, weight=linear_weights)
    outcome = update(list(zip(x.split(sizes), y.split(sizes), mask.split(sizes), strict=True)))
    found = torch.cat([model.weight.grad[0], model.bias.grad]).double()
    assert outcome.weight == {"scored": totals[0], "examples": totals[1]}
    assert bool(((found - exact).abs() <= bound).all())
    assert float(bound.max()) < 1e-4  # the bound would notice one term divided by the other's total


def test_one_total_for_both_terms_breaks_the_bound() -> None:
    torch.manual_seed(0)
    x, y, mask = torch.randn(11, 5), torch.randint(0, 2, (11,)).float(), (torch.arange(11) < 10).float()
    model = nn.Linear(5, 1)
    exact, bound = exact_and_bound(model, x, y, mask, 1, (11.0, 11.0))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=linear_terms, weight=linear_weights)
    update([(x, y, mask)])
    found = torch.cat([model.weight.grad[0], model.bias.grad]).double()
    assert bool(((found - exact).abs() > bound).any())


# The same bits as loops written by hand.


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_microbatch_is_bit_equal_to_a_hand_written_loop_that_adds_the_terms(policy: str, optimizer: str) -> None:
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[policy]
    hand, ours = mlp(), mlp()
    hand_optimizer, our_optimizer = (OPTIMIZERS[optimizer](m.parameters()) for m in (hand, ours))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=policy == "fp16")
    scale = LossScale.dynamic(init=1024.0) if policy == "fp16" else None
    update = truestep.Update(ours, our_optimizer, loss=two_terms, weight=two_weights, policy=policy, scale=scale)
    for step in range(4):
        data = scored(6, 4, seed=step)
        hand_optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            terms = two_terms(hand, data)
        scaler.scale(terms["labels"] + terms["examples"]).backward()
        scaler.step(hand_optimizer)
        scaler.update()
        assert update([data]).completed
        assert same(weights(hand), weights(ours))


def test_a_window_is_bit_equal_to_a_loop_that_multiplies_each_term_by_its_share() -> None:
    parts = window((4, 3), (2, 1), (2, 2))
    update = updating()
    update(parts)
    assert same(gradients(update), by_hand(parts, (3 / 6, 4 / 8), (1 / 6, 2 / 8), (2 / 6, 2 / 8)))


@pytest.mark.parametrize("policy", ["fp32", "fp16"])
def test_the_attempt_block_and_the_call_make_the_same_update(policy: str) -> None:
    parts = window((4, 3), (2, 0), (3, 2))
    called, blocked = updating(policy=policy), updating(policy=policy)
    outcome = called(parts)
    with blocked.attempt(total={"labels": 5, "examples": 9}) as attempt:
        for number, part in enumerate(parts):
            with attempt.autocast():
                terms = two_terms(blocked.plan.model, part)
            # The terms of a weight may come in any order, and the weight from the microbatch.
            weight = None if number == 0 else dict(reversed(two_weights(part).items()))
            attempt.backward(terms, weight, microbatch=part)
    assert same(weights(called.plan.model), weights(blocked.plan.model))
    found = attempt.outcome
    assert (found.loss, found.losses, found.weight, found.counts) == (
        outcome.loss,
        outcome.losses,
        outcome.weight,
        outcome.counts,
    )


def test_one_named_term_is_bit_equal_to_a_plain_loss_and_a_plain_loss_has_no_terms() -> None:
    parts = window((4, 3), (2, 1), (3, 3))
    named = updating(
        lambda model, data: {"labels": two_terms(model, data)["labels"]}, lambda data: {"labels": (data[1] >= 0).sum()}
    )
    plain = updating(lambda model, data: two_terms(model, data)["labels"], lambda data: (data[1] >= 0).sum())
    with_name, without = named(parts), plain(parts)
    assert same(weights(named.plan.model), weights(plain.plan.model))
    assert (with_name.loss, with_name.weight, with_name.losses) == (without.loss, {"labels": 7.0}, {"labels": without.loss})
    assert (without.weight, without.losses) == (7.0, None)
    assert with_name.weight_check == f"labels: {without.weight_check}"


def test_terms_that_are_sums_are_divided_by_their_own_totals() -> None:
    def sums(model: nn.Module, data: Scored) -> dict[str, Tensor]:
        logits = model(data[0])
        return {"labels": F.cross_entropy(logits, data[1], reduction="sum"), "examples": 0.1 * logits.square().sum()}

    parts = window((4, 3), (2, 0), (3, 2))
    means, summed = updating(), updating(sums, loss_is="sum")
    expected, outcome = means(parts), summed(parts)
    # Forward and backward of an MLP of widths 4, 8, 3 over 9 examples: under 2^8 roundings on a way, of parts that add up to 4.
    assert all(bool(((a - b).abs() <= 2**8 * U * 4).all()) for a, b in zip(gradients(means), gradients(summed), strict=True))
    assert outcome.losses == pytest.approx(expected.losses, rel=2**8 * U)


@pytest.mark.parametrize("policy", ["bf16-master", "fp16-master", "bf16-pure"])
def test_narrow_weights_move_as_by_the_sum_of_the_terms(policy: str) -> None:
    def summed(model: nn.Module, data: Scored) -> Tensor:
        terms = two_terms(model, data)
        return terms["labels"] + terms["examples"]

    scale = LossScale.static(1024.0) if policy == "fp16-master" else None
    options = {"policy": policy, "scale": scale, "check_weight": False}
    found = []
    for loss, weight in ((two_terms, two_weights), (summed, len)):
        update = truestep.Update(mlp(), lambda params: torch.optim.SGD(params, lr=0.1), loss=loss, weight=weight, **options)
        assert update([scored(1, 1)]).completed
        found.append(list(update.weights().values()))
    assert same(*found)


def test_an_optimizer_that_evaluates_again_finds_the_terms_at_their_shares_each_time() -> None:
    parts = window((4, 3), (2, 0), (3, 2))
    shares = [(3 / 5, 4 / 9), (0.0, 2 / 9), (2 / 5, 3 / 9)]
    hand, ours = mlp(), mlp()
    hand_optimizer, our_optimizer = (torch.optim.LBFGS(m.parameters(), max_iter=4) for m in (hand, ours))
    evaluations = 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        hand_optimizer.zero_grad()
        loss = torch.zeros(())
        for data, (labels, examples) in zip(parts, shares, strict=True):
            terms = two_terms(hand, data)
            part = (terms["labels"] * labels if labels else 0.0) + terms["examples"] * examples
            part.backward()
            loss += part.detach()
        return loss

    hand_optimizer.step(closure)
    weight_of = {1: {"labels": 0, "examples": 0}}  # of one example, which then weighs nothing
    update = truestep.Update(
        ours, our_optimizer, loss=two_terms, weight=lambda data: weight_of.get(len(data[0])) or two_weights(data)
    )
    outcome = update([*parts, scored(1, 1)])
    assert evaluations > 1
    assert outcome.completed
    assert same(weights(hand), weights(ours))


def test_a_microbatch_has_one_backward_however_many_terms_it_has() -> None:
    model, passes = mlp(), []

    def watch(module: nn.Module, args: object, output: Tensor) -> None:
        output.register_hook(passes.append)

    model[0].register_forward_hook(watch)
    updating(model=model)(window((4, 3), (2, 1), (3, 3)))
    assert len(passes) == 3


# What weighs nothing.


def test_a_term_of_weight_zero_adds_nothing_and_its_nan_is_not_seen() -> None:
    parts = window((4, 3), (2, 0), (2, 2))
    assert two_terms(mlp(), parts[1])["labels"].isnan()
    update = updating()
    outcome = update(parts)
    assert outcome.completed
    assert same(gradients(update), by_hand(parts, (3 / 5, 4 / 8), (0.0, 2 / 8), (2 / 5, 2 / 8)))
    assert math.isfinite(outcome.loss)


def test_a_term_without_weight_in_the_whole_window_adds_nothing() -> None:
    parts = window((4, 0), (2, 0))
    update = updating()
    outcome = update(parts)
    assert outcome.completed
    assert outcome.weight == {"labels": 0.0, "examples": 6.0}
    assert same(gradients(update), by_hand(parts, (0.0, 4 / 6), (0.0, 2 / 6)))
    assert outcome.losses == {"examples": outcome.loss}
    assert outcome.weight_check.startswith("examples: ")


def test_a_term_that_is_weightless_may_be_anything() -> None:
    update = updating(
        lambda model, data: {"boxes": None, "classes": two_terms(model, data)["labels"]},
        lambda data: {"boxes": 0, "classes": (data[1] >= 0).sum()},
    )
    assert update(window((4, 3))).completed


def test_a_window_in_which_no_term_weighs_anything_is_skipped_for_that_reason() -> None:
    update = updating(weight=lambda data: {"labels": 0, "examples": 0}, policy="fp16")
    before, scale = weights(update.plan.model), update.scale
    outcome = update([poisoned(part) for part in window((2, 2), (3, 1))])
    assert outcome.skip.reason is Reason.WEIGHT
    assert (outcome.weight, outcome.loss, outcome.losses) == ({"labels": 0.0, "examples": 0.0}, None, None)
    assert same(before, weights(update.plan.model))
    assert update.scale == scale


def test_a_total_that_no_weight_makes_up_is_no_skip() -> None:
    update = updating()
    with pytest.raises(StateError, match="no backward"), update.attempt(total={"labels": 0, "examples": 4}) as attempt:
        attempt.backward(two_terms(update.plan.model, scored(4, 0)), {"labels": 0, "examples": 0})


# Scale and units.


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**16, 2.0**60])
def test_a_power_of_two_scale_leaves_every_bit(scale: float) -> None:
    parts = window((4, 3), (2, 0), (3, 2))
    plain, scaled = updating(), updating(scale=LossScale.static(scale))
    expected, outcome = plain(parts), scaled(parts)
    assert same(weights(plain.plan.model), weights(scaled.plan.model))
    assert (outcome.loss, outcome.losses, outcome.grad_norm) == (expected.loss, expected.losses, expected.grad_norm)


def test_clipping_is_in_original_units_of_the_joint_gradient() -> None:
    parts = window((4, 3), (2, 0), (3, 2))
    norm = float(torch.cat([g.flatten() for g in by_hand(parts, (3 / 5, 4 / 9), (0.0, 2 / 9), (2 / 5, 3 / 9))]).double().norm())
    update = updating(clip=truestep.ClipNorm(norm / 4), scale=LossScale.static(1024.0))
    before = weights(update.plan.model)
    outcome = update(parts)
    assert outcome.grad_norm == pytest.approx(norm, rel=2 * U)  # the float32 gradients are the same, by a power of two
    assert outcome.grad_norm_clipped == pytest.approx(norm / 4, rel=2 * U)
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, weights(update.plan.model), strict=True)]).double().norm()
    # SGD(lr=0.1) moves by 0.1 times the clipped norm; each of 67 weights below 1 rounds its move by 2^-25 at most.
    assert float(moved) == pytest.approx(0.1 * norm / 4, rel=4 * U, abs=math.sqrt(67) * 2.0**-25)


def test_an_overflow_in_float16_backs_off_and_the_nan_of_a_weightless_term_is_not_blamed_for_it() -> None:
    x, y, mask = torch.randn(4, 5), torch.ones(4), torch.tensor([0.0, 0.0, 1.0, 1.0])
    model = nn.Linear(5, 1)
    terms = linear_terms(model, (x[:2], y[:2], mask[:2]))
    assert bool(torch.autograd.grad(terms["scored"], model.weight)[0].isnan().all())
    update = updating(linear_terms, linear_weights, model=model, policy="fp16", scale=LossScale.dynamic(init=2.0**60))
    before = weights(model)
    outcome = update(list(zip(x.split(2), y.split(2), mask.split(2), strict=True)))
    assert outcome.skip.reason is Reason.BACKWARD
    assert outcome.skip.curable
    assert outcome.next_loss_scale == 2.0**59
    assert same(before, weights(model))


def test_the_reason_is_found_at_the_shares_of_the_terms() -> None:
    """A gradient of 2^34 is beyond float16 at the smallest scale, 2^-16; at its share of 2^-20 it is not."""

    def loss(model: nn.Module, data: Scored) -> dict[str, Tensor]:
        return {"first": model(data[0]).float().sum() * 2.0**34, "second": model(data[0]).float().sum()}

    update = updating(loss, lambda data: {"first": 2.0**20, "second": 1}, loss_is="sum", policy="fp16", check_weight=False)
    assert update(window((2, 2))).skip.reason is Reason.BACKWARD


# What happened, told term by term.


def test_the_losses_are_the_means_of_the_terms_and_add_up_to_the_loss() -> None:
    parts = window((4, 3), (2, 0), (3, 2))
    terms = [{name: value.item() for name, value in two_terms(mlp(), part).items()} for part in parts]
    outcome = updating()(parts)
    expected = {
        "labels": (3 * terms[0]["labels"] + 2 * terms[2]["labels"]) / 5,
        "examples": sum(len(part[0]) * term["examples"] for part, term in zip(parts, terms, strict=True)) / 9,
    }
    assert outcome.losses == pytest.approx(expected, rel=1e-15 * 16)  # float64 sums of a few products
    assert outcome.loss == pytest.approx(sum(outcome.losses.values()), rel=1e-15 * 16)


@pytest.mark.parametrize("block", [False, True])
def test_a_term_that_is_not_finite_is_named(block: bool) -> None:
    def loss(model: nn.Module, data: Scored) -> dict[str, Tensor]:
        terms = two_terms(model, data)
        return {**terms, "examples": (terms["examples"] - 1e9).sqrt()} if len(data[0]) == 3 else terms

    update = updating(loss, check_weight=False)
    parts = window((4, 3), (3, 2))
    if block:
        with update.attempt(total={"labels": 5, "examples": 7}) as attempt:
            for part in parts:
                attempt.backward(loss(update.plan.model, part), two_weights(part))
        outcome = attempt.outcome
    else:
        outcome = update(parts)
    assert outcome.skip.reason is Reason.LOSS
    assert "term 'examples' of the loss of microbatch 1 is nan" in outcome.skip.detail
    assert math.isnan(outcome.losses["examples"])
    assert math.isfinite(outcome.losses["labels"])


def test_of_several_terms_that_are_not_finite_the_first_is_named_with_its_own_value() -> None:
    def loss(model: nn.Module, data: Scored) -> dict[str, Tensor]:
        logits = model(data[0])
        return {"labels": (logits * 1e38).exp().sum(), "examples": (logits - 1e9).sqrt().mean()}

    outcome = updating(loss, check_weight=False)(window((4, 3)))
    assert "term 'labels' of the loss of microbatch 0 is inf" in outcome.skip.detail


def test_a_term_that_overflows_in_float16_alone_is_a_forward_overflow() -> None:
    def loss(model: nn.Module, data: Scored) -> dict[str, Tensor]:
        return {**two_terms(model, data), "examples": (model(data[0]) * 1e6).float().square().mean()}

    outcome = updating(loss, policy="fp16", check_weight=False)(window((4, 3)))
    assert outcome.skip.reason is Reason.FORWARD
    assert "term 'examples' of the loss of microbatch 0 is inf, and finite in float32" in outcome.skip.detail


# The check of the weights, term by term.


def classes_and_sequences(model: nn.Module, data: Scored) -> dict[str, Tensor]:
    logits = model(data[0])
    return {
        "labels": F.cross_entropy(logits, data[1]),
        "sequences": F.cross_entropy(logits.unflatten(0, (-1, 2)).mean(1), data[1][::2]),
    }


@pytest.mark.parametrize(("off", "found"), [("labels", 5), ("sequences", 3)])
def test_an_off_by_one_in_one_term_is_refused_with_its_name_and_both_numbers(off: str, found: int) -> None:
    right = {"labels": 5, "sequences": 3}
    update = updating(classes_and_sequences, lambda data: {**right, off: found + 1})
    before = weights(update.plan.model)
    with pytest.raises(WeightError, match=f"declared weight is {found + 1}, and the loss is a mean over {found}") as caught:
        update(window((6, 5)))
    assert (caught.value.term, caught.value.weight, caught.value.denominator) == (off, found + 1, found)
    assert f"term: {off}" in str(caught.value)
    assert same(before, weights(update.plan.model))
    assert update.counts.attempts == 0
    text = updating(classes_and_sequences, lambda data: right)(window((6, 5))).weight_check
    assert text.startswith("labels: equals the loss's denominator (")
    assert "; sequences: equals the loss's denominator (" in text


def test_a_term_is_checked_where_it_first_weighs_something() -> None:
    update = updating(weight=lambda data: {**two_weights(data), "labels": len(data[1]) if (data[1] >= 0).any() else 0})
    assert "labels" not in update(window((4, 0))).weight_check
    with pytest.raises(WeightError) as caught:
        update(window((4, 3)))
    assert (caught.value.term, caught.value.weight, caught.value.denominator) == ("labels", 4, 3)


def test_a_term_is_read_once_and_the_record_says_so() -> None:
    update = updating(classes_and_sequences, lambda data: {"labels": (data[1] >= 0).sum(), "sequences": len(data[1]) // 2})
    update(window((6, 6)))
    assert update(window((4, 4))).weight_check.count("as read in an earlier attempt") == 2


# Names that do not agree, and other mistakes: refused with the names, and nothing has changed.

TOTAL = {"labels": 3, "examples": 4}
MISTAKES = {
    "a loss without the weight's terms": ({"loss": lambda m, d: two_terms(m, d)["labels"]}, LossError, "labels.*examples"),
    "a weight without the loss's terms": ({"weight": None}, LossError, r"labels.*examples.*no named terms"),
    "another name": (
        {"loss": lambda m, d: {"tokens": two_terms(m, d)["labels"], "examples": two_terms(m, d)["examples"]}},
        LossError,
        r"the loss has the terms \['tokens', 'examples'\], and its weight has the terms \['labels', 'examples'\]",
    ),
    "a term too few": ({"loss": lambda m, d: {"labels": two_terms(m, d)["labels"]}}, LossError, r"\['labels'\].*'examples'"),
    "no term": ({"weight": lambda d: {}}, WeightError, "names"),
    "a number for a name": ({"weight": lambda d: {0: 1, 1: 2}}, WeightError, "names"),
    "terms in a term": ({"weight": lambda d: {"labels": {"a": 1}, "examples": 2}}, WeightError, "term: labels"),
    "a negative weight": ({"weight": lambda d: {"labels": 3, "examples": -1}}, WeightError, "term: examples"),
    "a term of another shape": (
        {"loss": lambda m, d: {**two_terms(m, d), "examples": m(d[0])}, "check_weight": False},
        LossError,
        r"shape \(4, 3\)[^$]*term: examples",
    ),
    "a term without a graph": (
        {"loss": lambda m, d: {**two_terms(m, d), "examples": torch.ones(())}},
        LossError,
        "no graph[^$]*term: examples",
    ),
    "shares": ({"loss_is": "share", "weight": None}, LossError, "the loss is a dict"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_terms_of_an_update_is_refused(mistake: str) -> None:
    options, error, says = MISTAKES[mistake]
    update = updating(**options)
    before = weights(update.plan.model)
    with pytest.raises(error, match=says):
        update(window((4, 3)))
    assert same(before, weights(update.plan.model))
    assert update.counts.attempts == 0
    assert gradients(update) == [None] * 4


@pytest.mark.parametrize("other", [{"labels": 3}, {**TOTAL, "boxes": 1}, 3])
def test_the_microbatches_of_a_window_have_the_same_terms(other: object) -> None:
    found = iter([TOTAL, other])
    update = updating(weight=lambda data: next(found))
    with pytest.raises(WeightError, match="one window have different terms"):
        update(window((4, 3), (4, 3)))


@pytest.mark.parametrize(
    ("total", "weight", "error", "says"),
    [
        (
            None,
            TOTAL,
            WeightError,
            r"\['labels', 'examples'\], and the window's total has no named terms[^$]*total=.*'labels': \.\.\.",
        ),
        (7, TOTAL, WeightError, "the window's total has no named terms"),
        (TOTAL, 3, WeightError, r"the weight has no named terms, and the window's total has the terms \['labels', 'examples'\]"),
        ({"labels": 3}, TOTAL, WeightError, r"\['labels', 'examples'\].*\['labels'\]"),
        (None, 3, LossError, r"the loss has the terms \['labels', 'examples'\], and its weight has no named terms"),
        (
            {**TOTAL, "examples": 5},
            TOTAL,
            WeightError,
            "a total weight of 5, and its microbatches add up to 4[^$]*term: examples",
        ),
    ],
)
def test_a_block_declares_the_total_of_each_term(total, weight, error: type[UpdateError], says: str) -> None:
    update = updating()
    before = weights(update.plan.model)
    with pytest.raises(error, match=says), update.attempt(total=total) as attempt:
        attempt.backward(two_terms(update.plan.model, scored(4, 3)), weight)
    assert same(before, weights(update.plan.model))
    assert update.counts.attempts == 0


def test_terms_have_weights_and_not_shares_beside_which_a_plain_loss_may_have_one() -> None:
    update = updating()
    part = scored(4, 3)
    with pytest.raises(LossError, match="dict"), update.attempt(total=TOTAL) as attempt:
        attempt.backward(two_terms(update.plan.model, part), share=1.0)
    with update.attempt(total=TOTAL) as attempt:
        attempt.backward(two_terms(update.plan.model, part), TOTAL)
        attempt.backward(update.plan.model[0].weight.square().sum(), share=0.5)
        attempt.backward(update.plan.model[0].weight.mul(math.nan).sum(), share=0.0)
    outcome = attempt.outcome
    square = 0.5 * mlp()[0].weight.square().sum().item()
    assert outcome.weight == TOTAL
    assert outcome.loss == pytest.approx(sum(outcome.losses.values()) + square, rel=1e-6)
    hand = mlp()
    terms = two_terms(hand, part)
    (terms["labels"] + terms["examples"]).backward()
    (hand[0].weight.square().sum() * 0.5).backward()
    assert same(gradients(update), [p.grad for p in hand.parameters()])


def test_the_ledger_keeps_weights_and_losses_by_term(tmp_path) -> None:
    update = updating()
    outcome = update(window((4, 3), (2, 0)))
    with truestep.Ledger(tmp_path / "run.jsonl") as ledger:
        ledger.record(outcome)
    (kept,) = outcomes(tmp_path / "run.jsonl")
    assert kept == outcome
    assert (kept.weight, kept.losses) == (outcome.weight, outcome.losses)
