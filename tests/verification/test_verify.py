"""The laws of accumulation as `truestep.verify` shows them, and what it says where there is nothing to show."""

import copy
import inspect
import json
import math
import random
import typing
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.profile import FULL
from truestep.engine.clip import ClipNorm, ClipValue
from truestep.engine.outcome import Reason
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.errors import LossError, UsageError, WindowError
from truestep.tasks import Logistic
from truestep.verification.bias import bias_of
from truestep.verification.comparing import Compared, Comparison
from truestep.verification.criterion import Computed
from truestep.verification.gap import Gap
from truestep.verification.result import Verification
from truestep.verification.subject_update import subject_of_step
from truestep.verification.verify import _task, verify


def net(*, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def windows_of(*sizes, attempts=3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        [(torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator)) for n in sizes]
        for _ in range(attempts)
    ]


def loss_of(model, microbatch):
    rows, labels = microbatch
    return nn.functional.cross_entropy(model(rows), labels)


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def loop(model, optimizer, *, share, scale=1.0, before_step=lambda: None):
    """A hand-written window: each loss times `share(microbatch, window)`."""

    def step(window):
        optimizer.zero_grad()
        for microbatch in window:
            (loss_of(model, microbatch) * share(microbatch, window) * scale).backward()
        for p in model.parameters():
            p.grad /= scale
        before_step()
        optimizer.step()

    return step


def by_examples(microbatch, window):
    return len(microbatch[0]) / sum(len(rows) for rows, _ in window)


def checked(step, windows, model, optimizer, **options):
    return verify(step, windows, model=model, optimizer=optimizer, loss=loss_of, **options)


# B5: accumulation against the full batch in float32


def logistic_weights(microbatches):
    rows, labels = Logistic().splits().train.tensors
    model = Logistic().model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = Update(model, optimizer, loss=Logistic().loss)
    parts = zip(rows.split(128 // microbatches), labels.split(128 // microbatches), strict=True)
    window = [(x, y) for x, y in parts]
    result = verify(update, [window])
    assert update(window).completed
    return result, model.weight.detach().double()


def test_b5_four_microbatches_of_32_and_one_batch_of_128_end_at_the_printed_weights_and_not_at_the_same_bits():
    (one, many), (other, full) = logistic_weights(4), logistic_weights(1)
    assert one.passed, one
    assert other.passed, other
    for weights in (many, full):
        assert [round(w, 5) for w in weights.flatten().tolist()] == [0.03085, 0.02717]
    assert 0 < (many - full).abs().max() < 1e-8


@pytest.mark.parametrize("policy", ["fp32", "fp16", "bf16"])
def test_b5_over_seeds_no_attempt_is_beyond_its_derived_bound(policy):
    for seed in range(200 if FULL else 12):
        result = verify("logistic", policy=policy, attempts=2, seed=seed)
        assert result.passed, result


def test_the_weights_after_sgd_are_as_far_apart_as_the_gradients_times_the_learning_rate():
    result, many = logistic_weights(4)
    _, full = logistic_weights(1)
    weight = next(row for row in result.rows if row.name == "weight")
    length = full.norm() / 0.1  # from zeros, lr 0.1
    rounding = 2.0**-24 * full.abs().max() * math.sqrt(2)
    assert (many - full).norm() <= 2 * weight.tolerance * 0.1 * length + 2 * rounding


# B6: mixed precision


@pytest.mark.parametrize(
    ("task", "policy", "attempts"),
    [
        ("digits", "bf16", 4),
        ("digits", "fp32", 4),
        ("digits", "bf16-master", 2),
        ("bytes-lm", "bf16", 2),
        ("bytes-lm", "fp32", 2),
    ],
)
def test_b6_the_engines_update_is_the_full_batchs(task, policy, attempts):
    for seed in range(20 if FULL else 2):
        result = verify(task, policy=policy, attempts=attempts, seed=seed)
        assert result.passed, result


@pytest.mark.skipif(not FULL, reason="float16 is emulated on a CPU: full profile")
@pytest.mark.parametrize("task", ["digits", "bytes-lm"])
def test_b6_in_float16_with_a_dynamic_scale(task):
    for seed in range(3):
        result = verify(task, policy="fp16", attempts=2, seed=seed)
        assert result.passed, result


def test_b6_in_float16_by_hand_with_torchs_own_scaler():
    model, windows = net(), windows_of(4, 4, 4, 4)
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def step(window):
        optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_of(model, microbatch) / len(window)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()

    result = checked(step, windows, model, optimizer, scale=scaler, clip=ClipNorm(0.1))
    assert result.passed, result
    assert "float16" in result.criterion[0]
    assert any("underflow" in line for line in result.criterion)


# power


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", ["0.weight", "0.bias", "2.weight", "2.bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_factor_of_two_in_one_parameter_is_found_and_named(factor, name, dtype):
    model = net()
    optimizer = sgd(model)

    def step(window):
        optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
                loss = loss_of(model, microbatch) * by_examples(microbatch, window)
            loss.backward()
        dict(model.named_parameters())[name].grad.mul_(factor)
        optimizer.step()

    result = checked(step, windows_of(8, 8), model, optimizer)
    assert not result.passed
    assert [row.name for row in result.beyond] == [name]


def test_a_mean_of_means_over_counts_one_percent_apart_is_found_in_float32():
    model = net()
    optimizer = sgd(model)
    wrong = loop(model, optimizer, share=lambda microbatch, window: 1 / len(window))
    result = checked(wrong, windows_of(100, 101, attempts=1), model, optimizer)
    assert not result.passed
    assert len(result.beyond) == 4
    right = loop(model, optimizer, share=by_examples)
    assert checked(right, windows_of(100, 101, attempts=1), model, optimizer).passed


def test_the_criterion_of_float32_is_about_1e_5():
    for row in verify("bytes-lm", policy="fp32", attempts=1).rows:
        assert row.tolerance < 1e-5


def test_a_failure_is_read():
    model = net()
    optimizer = sgd(model)
    result = checked(loop(model, optimizer, share=lambda *_: 1.0), windows_of(4, 4, 4, 4), model, optimizer)
    assert not result.passed
    assert result.reading is not None
    assert result.reading.kind == "not-divided"
    assert result.reading.sentence in str(result)


def test_the_first_attempt_beyond_is_read_and_not_the_one_that_it_blew_up():
    model = net()
    optimizer = sgd(model)
    seen = []

    def blown_up():
        seen.append(None)
        if len(seen) > 1:
            model[0].bias.grad.fill_(math.inf)

    step = loop(model, optimizer, share=lambda *_: 1.0, before_step=blown_up)
    result = checked(step, windows_of(4, 4, 4, 4), model, optimizer)
    assert any(row.words == "what arrived is not finite" for row in result.beyond)
    assert result.reading.kind == "not-divided"


def test_a_reading_says_which_rule_finds_the_place_and_what_else_would_leave_the_same():
    model = net()
    optimizer = sgd(model)
    result = checked(loop(model, optimizer, share=lambda *_: 1.0), windows_of(4, 4, 4, 4), model, optimizer)
    assert f"by its rule {result.reading.rule}" in str(result)
    twice = replace(result, reading=replace(result.reading, also=("other-total",)))
    assert "the same numbers would be left by: other-total" in str(twice)
    assert "the same numbers" not in str(replace(result, reading=replace(result.reading, also=())))


def test_a_failure_without_a_cause_says_how_much_is_no_combination():
    model = net()
    optimizer = sgd(model)
    noise = torch.randn(16, 6, generator=torch.Generator().manual_seed(3))
    aside = loop(model, optimizer, share=by_examples, before_step=lambda: model[0].weight.grad.add_(noise))
    result = checked(aside, windows_of(8, 8), model, optimizer)
    assert not result.passed
    assert (result.reading, result.coupling) == (None, None)
    assert "is no combination of the microbatches' own gradients" in str(result)
    assert result.record()["remainder"] == result.remainder


@pytest.mark.parametrize(("mean", "way"), [(0.03, "too long"), (-0.03, "too short")])
def test_a_direction_alone_fails_in_words_of_its_own(mean, way):
    result = verify("logistic", policy="bf16", attempts=2)
    turned = replace(result, bias=bias_of([mean, mean * 1.01, mean * 0.99], allowed=0.01))
    assert result.passed
    assert not turned.passed
    assert f"the gradient is {way} by 3" in turned.headline
    assert "each attempt alone is within" in turned.headline


def test_a_window_that_comes_again_brings_its_roundings_again_and_makes_no_interval():
    model = net()
    update = Update(model, torch.optim.SGD(model.parameters(), lr=1e-6), loss=loss_of, policy="bf16")
    one, other = windows_of(4, 4, attempts=2)
    copied = [tuple(part.clone() for part in microbatch) for microbatch in one]
    for windows in ([one] * 4, [one, copied, one]):
        result = verify(update, windows)
        assert (result.bias.attempts, result.bias.interval, result.passed) == (1, None, True)
        assert any("come again" in note for note in result.notes)
    assert verify(update, [one, other, copied]).bias.attempts == 2


def test_a_direction_that_the_plain_full_batch_has_too_is_allowed_as_a_rounding_is():
    model = net()
    comparison = Comparison(subject_of_step(lambda window: None, model=model, optimizer=sgd(model), loss=loss_of))
    gap = Gap(name="w", elements=1, reference=1.0, arrived=1.02, error=0.02, plain_error=0.0, plain=1.0)
    computed = Computed(
        unit=2.0**-8, format="bfloat16", operations=1, smallest=0.0, scale=1.0, microbatches=1, kinks=0.0, judged_by_float64=True
    )
    found = {}
    for plain in (1.0, 1.0 + 2.0**-23):
        whole = replace(gap, plain=plain, plain_error=plain - 1.0)
        comparison._compared = [Compared(k, {"w": whole}, whole, computed, fresh=True) for k in range(3)]
        found[plain] = [comparison._bias(), comparison._bias("w")]
    assert [bias.allowed for bias in found[1.0]] == [3 * 2.0**-8] * 2
    assert [bias.allowed for bias in found[1.0 + 2.0**-23]] == [3 * 2.0**-8 + 3 * 2.0**16 * 2.0**-23] * 2
    assert [bias.beyond for bias in (found[1.0][0], found[1.0 + 2.0**-23][0])] == [True, False]


@pytest.mark.parametrize("limit", [0.05, 1e-4])
def test_torchs_clip_is_as_good_as_declared_in_float32_too(limit):
    model = net()
    optimizer = sgd(model)
    step = loop(model, optimizer, share=by_examples, before_step=lambda: nn.utils.clip_grad_norm_(model.parameters(), limit))
    result = checked(step, windows_of(4, 4), model, optimizer, clip=ClipNorm(limit))
    assert result.passed, result
    assert any(line.startswith("clip: ") for line in result.criterion)


def replaced_head(*, frozen):
    model = net()
    optimizer = sgd(model)
    model[2] = nn.Linear(16, 3).requires_grad_(not frozen)
    step = loop(model, optimizer, share=by_examples)

    def own(window):
        optimizer.zero_grad()
        for microbatch in window:
            (loss_of(model, microbatch) * by_examples(microbatch, window)).backward()
        optimizer.step()

    return checked(own if frozen else step, windows_of(4, 4), model, optimizer)


def test_a_head_that_was_replaced_after_the_optimizer_was_made_fails_and_is_named():
    result = replaced_head(frozen=False)
    assert not result.passed
    assert {row.name: row.words for row in result.beyond} == {"2.weight": "nothing arrived", "2.bias": "nothing arrived"}
    assert result.reading.kind == "no-gradient"
    assert any("in no optimizer" in note and "2.weight and 2.bias" in note for note in result.notes)
    assert {row.name for row in result.rows if row.verdict == "within"} == {"0.weight", "0.bias"}


def test_what_is_frozen_is_in_no_optimizer_by_right():
    result = replaced_head(frozen=True)
    assert result.passed, result
    assert not result.notes


def test_what_no_optimizer_holds_has_no_part_in_the_norm_that_is_clipped_to():
    model = net()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    held = lambda: nn.utils.clip_grad_norm_(model[0].parameters(), 0.05)  # noqa: E731
    step = loop(model, optimizer, share=by_examples, before_step=held)

    def clean(window):
        model.zero_grad()
        step(window)

    result = checked(clean, windows_of(4, 4), model, optimizer, clip=ClipNorm(0.05))
    assert {row.name for row in result.rows if row.verdict == "within"} == {"0.weight", "0.bias"}


def test_a_model_that_looks_over_its_batch_is_named():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    update = Update(model, sgd(model), loss=loss_of)
    result = verify(update, windows_of(8, 8))
    assert not result.passed
    assert result.coupling is not None
    assert result.coupling.kind == "batch-norm"


# B10


def test_b10_one_backward_of_the_summed_losses_is_the_full_batchs_too():
    model = net()
    optimizer = sgd(model)

    def step(window):
        optimizer.zero_grad()
        sum(loss_of(model, microbatch) * by_examples(microbatch, window) for microbatch in window).backward()
        optimizer.step()

    assert checked(step, windows_of(4, 4, 8), model, optimizer).passed


# clips, optimizers, joins


@pytest.mark.parametrize("clip", [ClipNorm(0.05), ClipValue(0.01)])
def test_the_full_batch_is_clipped_as_the_update_is(clip):
    model = net()
    update = Update(model, sgd(model), loss=loss_of, policy="bf16", clip=clip)
    assert verify(update, windows_of(4, 4)).passed
    twin = net()
    optimizer = sgd(twin)
    unclipped = loop(twin, optimizer, share=by_examples)
    assert not checked(unclipped, windows_of(4, 4), twin, optimizer, clip=clip).passed


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
def test_several_optimizers_and_fused_ones_under_every_kind_of_policy(policy):
    model = net()
    halves = lambda params: [torch.optim.AdamW(params[:2], fused=True), torch.optim.SGD(params[2:], lr=0.1)]  # noqa: E731
    result = verify(Update(model, halves, loss=loss_of, policy=policy), windows_of(4, 4))
    assert result.passed, result
    assert {row.name for row in result.rows} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_an_optimizer_that_is_left_out_leaves_its_parameters_without_a_gradient():
    model = net()
    one, other = (torch.optim.SGD(model[place].parameters(), lr=0.1) for place in (0, 2))
    result = checked(loop(model, one, share=by_examples), windows_of(4, 4), model, [one, other])
    assert {row.name: row.words for row in result.beyond} == {"2.weight": "nothing arrived", "2.bias": "nothing arrived"}
    assert any("was not stepped" in note for note in result.notes)


def test_microbatches_of_unequal_lengths_are_judged_by_the_weighted_sum_and_it_is_said():
    model = net()

    def by_tokens(model, rows):
        return model(rows).square().mean()

    windows = [[torch.randn(2, n, 6, generator=torch.Generator().manual_seed(n)) for n in (3, 5)]]
    update = Update(model, sgd(model), loss=by_tokens, weight=lambda rows: rows[..., 0].numel(), check_weight=False)
    result = verify(update, windows)
    assert result.passed, result
    assert any("could not be joined" in note for note in result.notes)
    joined = verify(update, windows, join=lambda window: torch.cat([rows.flatten(0, 1) for rows in window])[:, None])
    assert joined.passed, joined
    assert not joined.notes


def test_whole_numbers_that_were_added_are_noted():
    model = net()
    update = Update(model, sgd(model), loss=lambda model, m: loss_of(model, m[:2]))
    windows = [[(rows, labels, 128) for rows, labels in window] for window in windows_of(4, 4)]
    result = verify(update, windows)
    assert any("whole numbers" in note and "join=" in note for note in result.notes)
    assert not verify(update, windows, join=lambda window: tuple(map(torch.cat, list(zip(*window, strict=True))[:2]))).notes


def test_losses_that_come_as_sums_and_in_terms_have_a_full_batch_too():
    model = net()

    def total(model, microbatch):
        rows, labels = microbatch
        return nn.functional.cross_entropy(model(rows), labels, reduction="sum")

    assert verify(Update(model, sgd(model), loss=total, loss_is="sum"), windows_of(3, 5)).passed

    def terms(model, microbatch):
        return {"class": loss_of(model, microbatch), "size": model(microbatch[0]).square().mean()}

    update = Update(
        model, sgd(model), loss=terms, weight=lambda m: {"class": len(m[0]), "size": 3 * len(m[0])}, check_weight=False
    )
    assert verify(update, windows_of(3, 5)).passed


def test_an_optimizer_that_evaluates_again_is_compared_at_its_first_evaluation():
    model = net()
    update = Update(model, torch.optim.LBFGS(model.parameters(), max_iter=3), loss=loss_of)
    result = verify(update, windows_of(4, 4, attempts=2))
    assert result.passed, result
    assert any("first evaluation" in note for note in result.notes)


def test_dropout_by_the_same_draws_in_one_microbatch_is_equal_in_float64_too():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 3))
    result = verify(Update(model, sgd(model), loss=loss_of), windows_of(16))
    assert result.passed, result


# what cannot be judged, and what is left out


def test_a_model_that_float64_cannot_have_is_judged_by_float32_and_it_is_said():
    class Single(nn.Linear):
        def forward(self, rows):
            return super().forward(rows.float())

    torch.manual_seed(0)
    model = nn.Sequential(Single(6, 3))
    result = verify(Update(model, sgd(model), loss=loss_of), windows_of(4, 4))
    assert result.passed, result
    assert any("float64 could not be had" in note for note in result.notes)


def test_a_model_that_draws_by_format_is_judged_by_float32():
    class Noisy(nn.Linear):
        def forward(self, rows):
            return super().forward(rows + torch.randn_like(rows))

    torch.manual_seed(0)
    model = nn.Sequential(Noisy(6, 3))
    result = verify(Update(model, sgd(model), loss=loss_of), windows_of(16))
    assert result.passed, result


def test_a_gradient_that_is_0_but_for_rounding_is_not_judged():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.shift = net(), nn.Parameter(torch.full((1,), 0.3))

        def forward(self, rows):
            return self.inner(rows) + self.shift  # softmax does not see it

    model = Shifted()
    for policy in ("fp32", "bf16"):
        result = verify(Update(model, sgd(model), loss=loss_of, policy=policy), windows_of(8, 8))
        assert result.passed, result
        shift = next(row for row in result.rows if row.name == "shift")
        assert shift.verdict == "not judged"
        assert "0 but for rounding" in shift.words


def test_a_window_whose_gradient_is_0_divides_nothing_and_proves_nothing():
    model = net()
    update = Update(model, sgd(model), loss=lambda model, m: loss_of(model, m) * 0.0)
    result = verify(update, windows_of(4, 4))
    assert not result.passed
    assert "all gradients are zero in 3 attempts" in result.headline
    assert any("0 everywhere" in note for note in result.notes)
    assert json.loads(json.dumps(result.record(), allow_nan=False)) == result.record()


def test_a_gradient_that_underflows_is_beyond_what_is_explained():
    model = net()
    optimizer = sgd(model)

    def step(window):
        optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_of(model, microbatch) * 2.0**-24
            loss.backward()
        for p in model.parameters():
            p.grad *= 2.0**24 / len(window)
        optimizer.step()

    result = checked(step, windows_of(4, 4), model, optimizer, scale=2.0**-24)
    assert not result.passed
    assert any(row.words == "0 arrived" for row in result.beyond)


def test_parameters_that_are_not_finite_are_no_success():
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
    result = verify(Update(model, sgd(model), loss=loss_of), windows_of(4, 4, attempts=2))
    assert not result.passed
    assert [str(Reason.PARAMETER) in skipped.reason for skipped in result.skipped] == [True, True]
    assert "no attempt of 2 stepped" in result.headline
    optimizer = sgd(model)
    by_hand = checked(loop(model, optimizer, share=by_examples), windows_of(4, 4), model, optimizer)
    assert not by_hand.passed
    assert {row.verdict for row in by_hand.rows} == {"not judged"}


def test_a_skipped_first_attempt_is_told_and_the_others_are_compared():
    model = net()
    update = Update(model, sgd(model), loss=loss_of, policy="fp16", scale=LossScale.dynamic(2.0**40))
    result = verify(update, windows_of(2, attempts=2), join=None)
    assert [skipped.attempt for skipped in result.skipped] == [0, 1]
    assert not result.passed
    grown = Update(model, sgd(model), loss=loss_of, policy="fp16", scale=LossScale.dynamic(2.0**20, backoff=2.0**-10))
    result = verify(grown, windows_of(2, attempts=3))
    assert [skipped.attempt for skipped in result.skipped] == [0]
    assert "overflow" in result.skipped[0].reason
    assert result.passed, result
    assert result.compared == 2


def test_a_loop_that_steps_nothing_has_not_passed():
    model = net()
    result = checked(lambda window: None, windows_of(4), model, sgd(model))
    assert not result.passed
    assert "no optimizer was stepped" in str(result)


# what is left behind


def everything(model, optimizer):
    state = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"], optimizer.state_dict()["param_groups"]))
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return state, grads, torch.get_rng_state(), np.random.get_state()[1].tolist(), [m.training for m in model.modules()]


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
def test_an_update_goes_on_as_if_nothing_had_been_verified(policy):
    models, outcomes = [], []
    for verified in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3))
        update = Update(
            model,
            lambda params: torch.optim.AdamW(params, lr=0.01),
            loss=loss_of,
            policy=policy,
            scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        )
        update(windows_of(8, 8, seed=5)[0])
        if verified:
            verify(update, windows_of(8, 8))
        outcomes.append([update(window) for window in windows_of(8, 8, seed=6)][-1])
        models.append((model.state_dict(), update.weights(), update.state_dict()))
    assert same(*models)
    assert outcomes[0].lr == outcomes[1].lr


@pytest.mark.parametrize("policy", ["fp32", "fp16", "bf16-master", "bf16-pure"])
def test_weights_moments_scale_counts_schedule_buffers_and_random_state_of_an_update_are_bit_for_bit_as_before(policy):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    update = Update(
        model,
        lambda params: torch.optim.AdamW(params, lr=0.01),
        loss=lambda model, microbatch: loss_of(model, microbatch) + 0.0 * np.random.rand() * random.random(),
        policy=policy,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
    )
    update(windows_of(8, 8, seed=5)[0])

    def all_of_it():
        rest = copy.deepcopy((update.state_dict(), update.weights(), [each.state_dict() for each in update.schedulers]))
        return everything(model, update.optimizers[0]), rest, random.getstate()

    before = all_of_it()
    assert verify(update, windows_of(8, 8)).attempts == 3
    assert same(all_of_it(), before)


def test_a_step_functions_model_optimizer_and_random_state_are_put_back_also_after_an_exception():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters())
    step = loop(model, optimizer, share=by_examples)
    step(windows_of(8)[0])
    before = everything(model, optimizer)

    def failing(window):
        model.eval()
        np.random.rand()
        step(window)
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        checked(failing, windows_of(8), model, optimizer)
    assert same(everything(model, optimizer), before)
    checked(step, windows_of(8), model, optimizer)
    assert same(everything(model, optimizer), before)


# what is asked wrongly


def test_what_has_no_meaning_is_refused_by_name():
    model = net()
    update, windows = Update(model, sgd(model), loss=loss_of), windows_of(4)
    with pytest.raises(UsageError, match="policy= says nothing about an update"):
        verify(update, windows, policy="fp16")
    with pytest.raises(UsageError, match="without optimizer, loss"):
        verify(lambda window: None, windows, model=model)
    with pytest.raises(UsageError, match="windows of its own"):
        verify("logistic", windows)
    with pytest.raises(UsageError, match="no window"):
        verify(update, [])
    with pytest.raises(UsageError, match="windows= is a generator"):
        verify(update, (window for window in windows))
    with pytest.raises(UsageError, match="0 attempts"):
        verify("logistic", attempts=0)
    with pytest.raises(UsageError, match="cannot be verified"):
        verify(3)
    with pytest.raises(UsageError, match="no loss scale"):
        checked(lambda window: None, windows, model, sgd(model), scale="big")
    with pytest.raises(WindowError, match="no microbatch"):
        verify(update, [windows[0], []])


def test_a_loss_that_does_not_take_the_loops_half_weights_says_so_with_its_line_and_one_that_casts_to_them_passes():
    model = net().bfloat16()
    optimizer = sgd(model)

    def step(window):
        optimizer.zero_grad()
        for x, y in window:
            (nn.functional.cross_entropy(model(x.bfloat16()).float(), y) / len(window)).backward()
        optimizer.step()

    def casting(model, microbatch):
        x, y = microbatch
        return nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)), y)

    with pytest.raises(LossError, match=r"test_verify.py.*torch.bfloat16 weights"):
        verify(step, windows_of(8, 8), model=model, optimizer=optimizer, loss=loss_of)
    assert verify(step, windows_of(8, 8), model=model, optimizer=optimizer, loss=casting).passed


def test_a_loop_in_tf32_is_held_to_what_tf32_explains_and_its_full_batch_is_float32s(arithmetic):
    model = net()
    optimizer = sgd(model)

    def as_if_in_tf32():
        for p in model.parameters():
            p.grad.mul_(1 + 2.0**-11)

    step = loop(model, optimizer, share=by_examples, before_step=as_if_in_tf32)
    assert not checked(step, windows_of(4, 4), model, optimizer).passed
    with arithmetic("matmul", "tf32"):
        result = checked(step, windows_of(4, 4), model, optimizer)
    assert result.passed, result
    assert "tf32: unit roundoff u = 2^-11" in result.criterion[0]
    assert "e / 2^-24" in str(result)


def test_what_the_signatures_promise_is_what_the_functions_behind_them_take():
    promised = [inspect.signature(each).parameters for each in typing.get_overloads(verify)]
    for own, function in ((promised[0], _task), (promised[2], subject_of_step)):
        taken = {
            each.name: each.default for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY
        }
        assert {name: own[name].default for name in taken} == taken
        assert {name for name, each in own.items() if each.kind is each.KEYWORD_ONLY} - set(taken) <= {"join"}


def test_a_report_says_what_was_found_and_its_record_is_json():
    result = verify("logistic", policy="bf16", attempts=2)
    assert isinstance(result, Verification)
    text = str(result)
    for words in ("passed", "weight", "u = 2^-8", "bias:", "tolerance ="):
        assert words in text
    record = json.loads(json.dumps(result.record(), allow_nan=False))
    assert record["schema"] == 1
    assert record["passed"] is True
    assert [row["name"] for row in record["rows"]] == [row.name for row in result.rows]
