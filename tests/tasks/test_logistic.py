"""The logistic task is the lesson it is named for: 4 microbatches of 32 and 1 of 128 end at the same printed weights."""

import pytest
import torch
from torch import Tensor

import truestep
from truestep.tasks import Logistic

U = 2.0**-24  # half a unit in the last place of float32
VECTORIZED = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
ROWS, LABELS = Logistic().splits().train.tensors


def gamma(n: int) -> float:
    """The error of n roundings one after the other (Higham 2002, lemma 3.1)."""
    return n * U / (1 - n * U)


def weights_after_one_update(microbatches: int) -> tuple[Tensor, truestep.Outcome]:
    """The weights and the outcome of one update of all rows in so many microbatches."""
    task = Logistic()
    train, model = task.splits().train, task.model()
    update = truestep.Update(model, task.optimizer(model.parameters()), loss=task.loss)
    outcome = update([task.microbatch(train, part) for part in torch.arange(128).tensor_split(microbatches)])
    return model.get_parameter("weight").detach().double(), outcome


def exact_gradient_and_bound() -> tuple[Tensor, Tensor]:
    """The float64 gradient of the mean loss by the two weights, and how far a float32 one may lie from it.

    At zero weights the logits are 0 and s(0) = 1/2, so that row i contributes (1/2 - y_i) x_i / 128, with no rounding: halves
    and powers of two. 32 x 4 and 128 are powers of two as well, and so are the shares. What is left are 127 additions, in
    whatever order, of terms whose sizes add up to S: |error| <= gamma(127) S.
    """
    terms = (0.5 - LABELS.double()) * ROWS.double() / 128
    return terms.sum(0), gamma(127) * terms.abs().sum(0)


def test_the_data_are_the_lessons() -> None:
    torch.manual_seed(42)
    rows = torch.randn(128, 2)
    assert torch.equal(ROWS, rows)
    assert torch.equal(LABELS.squeeze(1), (rows[:, 0] + rows[:, 1] > 0).float())
    if VECTORIZED:  # torch.randn takes its logarithms and cosines from another library otherwise
        assert Logistic().digest() == "2cfbe7cf264e801cd9de2c85cc84f48af56d10cab332773c07380330455cc1fc"


def test_validation_and_test_are_further_draws_of_the_same_rule() -> None:
    splits = Logistic().splits().as_dict()
    assert {name: len(split) for name, split in splits.items()} == {"train": 128, "validation": 1024, "test": 1024}
    for split in splits.values():
        rows, labels = split.tensors
        assert torch.equal(labels.squeeze(1), (rows[:, 0] + rows[:, 1] > 0).float())
    rows = torch.cat([split.tensors[0] for split in splits.values()])
    assert len(rows.unique(dim=0)) == 128 + 1024 + 1024


@pytest.mark.parametrize("microbatches", [4, 1])
def test_one_update_ends_at_the_printed_weights(microbatches: int) -> None:
    weights, outcome = weights_after_one_update(microbatches)
    assert [f"{value:.5f}" for value in weights[0].tolist()] == ["0.03085", "0.02717"]
    assert outcome.microbatches == microbatches
    assert outcome.weight == 128
    assert outcome.weight_check.startswith("equals the loss's denominator")


def test_the_two_differ_by_a_few_billionths_and_within_the_derived_bound() -> None:
    difference = (weights_after_one_update(4)[0] - weights_after_one_update(1)[0]).abs()[0]
    exact, bound = exact_gradient_and_bound()
    # Each gradient lies within `bound` of the exact one. w = 0 - 0.1 g then rounds twice, the product and the difference.
    allowed = 0.1 * (2 * bound + 2 * gamma(2) * (exact.abs() + bound))
    assert bool((difference <= allowed).all())
    assert allowed.max() < 1e-6  # a row too much or too little moves a weight by 0.1 * |x| / 256: hundreds of times as far
    assert difference.max() < 4e-8
    if VECTORIZED:  # sums one by one have the same order in both splits, and no difference
        assert difference.max() > 4e-10


def test_each_split_lies_within_the_bound_of_the_exact_weights() -> None:
    exact, bound = exact_gradient_and_bound()
    for microbatches in (1, 2, 3, 4, 128):
        weights, _ = weights_after_one_update(microbatches)
        # shares of 43/128 and 42/128 are no powers of two: they cost 2 roundings a term, the mean's quotient another
        allowed = 0.1 * (bound + gamma(5) * (exact.abs() + bound) + gamma(3) * bound / gamma(127))
        assert bool(((weights[0] + 0.1 * exact).abs() <= allowed).all())


def test_quality_is_the_log_loss_of_a_split() -> None:
    task = Logistic()
    assert task.quality(task.model(), task.splits().test) == pytest.approx(0.6931471805599453, rel=gamma(1024))
