"""What arrived as a combination of the microbatches' gradients: found again, and told where it cannot be."""

import numpy as np
import pytest
import torch

from truestep.verification.coefficients import BLOCK, geometry

FLOAT32, FLOAT16, BFLOAT16 = 2.0**-24, 2.0**-11, 2.0**-8


def gradients(count, seed, sizes=(40, 7)):
    draw = torch.Generator().manual_seed(seed)
    return [{f"p{i}": torch.randn(size, generator=draw) for i, size in enumerate(sizes)} for _ in range(count)]


def combined(parts, coefficients, *, unit=0.0, seed=0):
    """Their combination, each element rounded as far as `unit` allows."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: sum(
            c * part[name] * (1 + unit * (2 * torch.rand(part[name].shape, generator=draw) - 1))
            for c, part in zip(coefficients, parts, strict=True)
        )
        for name in parts[0]
    }


@pytest.mark.parametrize("unit", [FLOAT32, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("count", range(1, 9))
def test_the_coefficients_are_found_again_within_what_is_said_of_them(count, unit):
    for seed in range(10):
        parts = gradients(count, seed)
        true = np.random.default_rng(seed).uniform(-2, 2, count)
        found = geometry(combined(parts, true, unit=unit, seed=seed), parts, unit=unit).nearest
        assert found.told_apart
        assert found.explained
        assert (np.abs(np.array(found.coefficients) - true) <= np.array(found.uncertainty)).all()
        assert max(found.uncertainty) < 1000 * max(unit, 1e-6)


def test_what_is_no_combination_is_left_over_with_its_size():
    parts = gradients(3, 0)
    arrived = combined(parts, [1, 1, 1])
    aside = torch.randn(40, generator=torch.Generator().manual_seed(9))
    for part in parts:  # at right angles to all of them: Gram-Schmidt, twice
        aside = aside - sum((aside @ q) * q for q in torch.linalg.qr(torch.stack([p["p0"] for p in parts]).T).Q.T)
        assert part["p0"] @ aside < 1e-3
    arrived["p0"] = arrived["p0"] + aside
    found = geometry(arrived, parts, unit=FLOAT32).nearest
    norm = float(torch.cat(list(arrived.values())).norm())
    assert found.residual == pytest.approx(float(aside.norm()) / norm, rel=1e-4)
    assert not found.explained
    assert found.coefficients == pytest.approx((1, 1, 1), abs=1e-4)


@pytest.mark.parametrize("apart", [0.0, 1e-8])
def test_gradients_that_rounding_makes_alike_are_said_to_be_so_and_share_equally(apart):
    one, other = gradients(2, 1)
    same = {name: one[name] + apart * other[name] for name in one}
    found = geometry(combined([one], [3.0]), [one, same, other], unit=FLOAT16).nearest
    assert not found.told_apart
    assert found.coefficients == pytest.approx((1.5, 1.5, 0.0), abs=0.02)


def test_gradients_that_differ_by_more_than_rounding_are_told_apart():
    one, other = gradients(2, 1)
    near = {name: one[name] + 0.05 * other[name] for name in one}
    found = geometry(combined([one, near], [0.2, 0.7]), [one, near], unit=FLOAT32).nearest
    assert found.told_apart
    assert found.coefficients == pytest.approx((0.2, 0.7), abs=1e-4)


def test_a_gradient_of_zero_cannot_be_told_and_divides_nothing_by_zero():
    parts = [*gradients(1, 0), {}]
    found = geometry(combined(parts[:1], [0.5]), parts, unit=FLOAT32).nearest
    assert found.coefficients == pytest.approx((0.5, 0.0))
    assert not found.told_apart


def test_nothing_that_arrived_is_no_combination_of_anything():
    parts = gradients(2, 0)
    found = geometry({}, parts, unit=FLOAT32).nearest
    assert found.coefficients == (0.0, 0.0)
    assert found.residual == 0.0
    assert geometry(parts[0], [{}, {}], unit=FLOAT32).nearest.residual == 1.0


def test_what_arrived_before_is_told_from_the_window():
    parts, (before,) = gradients(2, 3), gradients(1, 4)
    arrived = combined([*parts, before], [0.5, 0.5, 0.8])
    found = geometry(arrived, parts, unit=FLOAT32, before=before).nearest
    assert found.coefficients == pytest.approx((0.5, 0.5), abs=1e-5)
    assert found.before == pytest.approx(0.8, abs=1e-5)


def test_elements_that_were_cut_to_a_limit_are_left_out():
    parts = gradients(2, 5)
    arrived = {name: value.clamp(-0.4, 0.4) for name, value in combined(parts, [0.5, 0.5]).items()}
    assert geometry(arrived, parts, unit=FLOAT32).nearest.residual > 0.1
    found = geometry(arrived, parts, unit=FLOAT32, limit=0.4).nearest
    assert found.coefficients == pytest.approx((0.5, 0.5), abs=1e-5)


def test_a_parameter_is_looked_at_block_by_block(monkeypatch):
    parts = gradients(2, 6, sizes=(23,))
    arrived = combined(parts, [0.5, 2.0])
    whole = geometry(arrived, parts, unit=FLOAT32)
    monkeypatch.setattr("truestep.verification.coefficients.BLOCK", 5)
    assert BLOCK > 23
    assert np.allclose(geometry(arrived, parts, unit=FLOAT32).products, whole.products)


def test_the_right_combination_fits_and_another_does_not():
    parts = gradients(4, 7)
    g = geometry(combined(parts, [0.25] * 4, unit=FLOAT16), parts, unit=FLOAT16)
    assert g.fits([0.25] * 4)
    assert not g.fits([0.25, 0.25, 0.25, 0.26])
    assert not g.fits([0.0] * 4)
