"""The pictures' tables hold what torch and the engine give, asked again in another way."""

from __future__ import annotations

import math
import random

import pytest
import torch

import truestep
from tests.profile import FULL, seed
from truestep.labs.tables import clip_and_unscale, number_line, one_update, scale_walk, token_means

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
INTEGERS = {2: torch.int16, 1: torch.uint8}


@pytest.mark.parametrize("place", range(len(number_line.SHOWN)))
def test_the_number_line_is_torchs_own_cast(place):
    table = number_line.number_line()
    form = table["formats"][place]
    dtype, saturates = DTYPES[form["name"]], form["name"] == "e4m3fn"
    scales = torch.tensor([2.0**exponent for exponent in number_line.SCALES])
    products = torch.tensor(table["values"])[:, None] * scales  # exact: a power of two
    cast = products.to(dtype)
    for row, gradient in enumerate(table["gradients"]):
        assert table["values"][row] == torch.tensor(float(gradient)).item()
        for column in range(len(scales)):
            got = cast[row, column].float().item()
            stored = form["stored"][row][column]
            assert (stored is None) == (not math.isfinite(got))
            if stored is None:
                assert form["fate"][row][column] == "overflow"
                continue
            assert stored == got, (gradient, column)
            exact = products[row, column].item()
            assert form["error"][row][column] == pytest.approx(abs(stored - exact) / exact, rel=6e-3, abs=0)
            assert form["fate"][row][column] == fate(stored, exact, torch.finfo(dtype), saturates=saturates)
            assert neighbours(cast[row, column]) == (form["below"][row][column], form["above"][row][column])


def fate(stored, exact, info, *, saturates):
    if saturates and exact > info.max + 16:  # half of the last distance; the tie itself goes to the even 448
        return "saturated"
    if stored == 0:
        return "zero"
    return "subnormal" if stored < info.smallest_normal else "exact" if stored == exact else "rounded"


def neighbours(number):
    """The exponents of the distances to the numbers whose bit patterns are next; None where there is none."""
    bits = number.reshape(1).view(INTEGERS[number.element_size()])
    found = []
    for step in (-1, 1):
        if step == -1 and number.float().item() == 0:
            found.append(None)
            continue
        next_to = (bits + step).view(number.dtype).float().item()
        found.append(int(math.log2(abs(next_to - number.float().item()))) if math.isfinite(next_to) else None)
    return tuple(found)


def test_clip_and_unscale_is_what_the_limit_does_by_arithmetic():
    for setting in clip_and_unscale.clip_and_unscale()["settings"]:
        scale, limit = setting["scale"], setting["limit"]
        for factor, case in zip(clip_and_unscale.FACTORS, setting["cases"], strict=True):
            norm = factor * math.hypot(*setting["gradient"])
            within = {"rel": 4e-6, "abs": 1e-6 / scale}
            assert case["unscale"][-1]["norm"] == pytest.approx(min(norm, limit), **within)
            assert case["engine"]["norm"] == pytest.approx(min(norm, limit), **within)
            assert case["clip"][-1]["norm"] == pytest.approx(min(norm * scale, limit) / scale, **within)


def walked(sizes, *, moves):
    """The scale of each attempt and whether it completed, by the table alone."""
    table, exponent, count, found = scale_walk.scale_walk(), scale_walk.START, 0, []
    for size in sizes:
        cell = table["cells"][size][exponent - table["exponents"][0]][count]
        found.append((exponent, cell["completed"]))
        if moves:
            exponent, count = cell["exponent"], cell["count"]
    return found


@pytest.mark.parametrize("moves", [True, False])
def test_a_walk_through_the_scales_is_one_update_called_again_and_again(moves):
    draw = random.Random(seed())
    sizes = [draw.choice(list(scale_walk.SIZES)) for _ in range(16)]
    update = scale_walk.built(scale_walk.dynamic() if moves else truestep.LossScale.static(2.0**scale_walk.START))
    found = []
    for size in sizes:
        exponent = scale_walk.exponent_of(update.scale)
        found.append((exponent, update([scale_walk.SIZES[size]]).completed))
    assert walked(sizes, moves=moves) == found


def test_token_means_are_those_of_arithmetic():
    table = token_means.token_means()
    draw = random.Random(seed())
    windows = list(table["means"].items())
    for counts, (by_token, of_means) in windows if FULL else draw.sample(windows, 40):
        parts = list(zip(map(int, counts.split(",")), token_means.LOSSES, strict=False))
        total = sum(count for count, _ in parts)
        assert by_token == pytest.approx(sum(count * loss for count, loss in parts) / total, rel=1e-6)
        assert of_means == pytest.approx(sum(loss for _, loss in parts) / len(parts), rel=1e-6)
    assert table["means"]["100,10"] == [pytest.approx(24 / 11, rel=1e-6), 3.0]


@pytest.mark.parametrize("name", ["finite", "overflow"])
def test_the_stages_end_where_the_update_in_one_call_ends(name):
    window = one_update.WINDOWS[name]
    update, reached = one_update._built(truestep.ClipNorm(one_update.LIMIT))
    outcome = update([torch.tensor([gradient]) for gradient in window])
    stages = {stage["name"]: stage for stage in one_update.stages(window)}
    end = stages["clock"]
    counts = outcome.counts
    assert (end["weights"], end["scale"]) == (one_update._weight(update)[0].tolist(), outcome.next_loss_scale)
    assert (end["attempts"], end["updates"], end["skips"], end["ticks"]) == (1, counts.completed, counts.skipped, counts.ticks)
    assert end["rate"] == update.optimizers[0].param_groups[0]["lr"]
    assert stages["clip"]["gradient"] == (reached[0] if outcome.completed else None)
    if name == "finite":
        assert stages["unscale"]["gradient"] == [3.0, 4.0]  # the mean of the microbatches' own
        assert stages["backward"]["gradient"] == [3.0 * one_update.SCALE, 4.0 * one_update.SCALE]
        assert stages["check"]["norm"] == outcome.grad_norm == 5.0
        assert stages["clip"]["gradient"] == pytest.approx([1.2, 1.6], rel=1e-6)
    else:
        assert stages["backward"]["gradient"] == ["inf", 4.0 * one_update.SCALE]
        assert stages["check"]["reason"] == "backward overflow"
        assert stages["step"]["weights"] == [0.0, 0.0]
