"""A scaler that is made anew for the same optimizer is named; several scalers for several optimizers are not."""

import pytest

from tests.audit.rules.making import Telling, found
from truestep.audit.rules.scaler_recreated import RULE


def run(telling, *, second=7, restored=False, after=1024.0, optimizer=0, enabled=True):
    telling.tell("ScalerMade", 7, scaler=0, enabled=enabled).backward().step(scaler=0).tell("Updated", scaler=0, after=after)
    telling.tell("ScalerMade", second, scaler=1, enabled=enabled)
    if restored:
        telling.tell("Restored", what="scaler", which=1)
    return telling.backward().step(scaler=1, optimizer=optimizer)


@pytest.mark.parametrize(("after", "severity"), [(512.0, "error"), (1024.0, "warning")])
def test_a_second_scaler_of_the_same_line_is_named(after, severity):
    assert found(RULE, run(Telling(), after=after)) == [(severity, 7)]


@pytest.mark.parametrize("how", [{"second": 9}, {"restored": True}, {"optimizer": 1}, {"enabled": False}])
def test_a_scaler_of_another_line_or_optimizer_or_that_goes_on_or_is_off_is_right(how):
    assert found(RULE, run(Telling(), **how)) == []


def test_scalers_that_were_made_together_are_right():
    telling = Telling().tell("ScalerMade", 7, scaler=0).tell("ScalerMade", 7, scaler=1)
    for scaler in (0, 1, 0, 1):
        telling.backward().step(scaler=scaler)
    assert found(RULE, telling) == []


def test_a_scale_that_is_handed_on_is_right(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "scale = 1024.0\nfor epoch in range(3):\n    scaler = GradScaler(init_scale=scale)\n    scale = scaler.get_scale()\n"
    )
    telling = Telling(path)
    telling.tell("ScalerMade", 3, scaler=0).backward().step(scaler=0).tell("ScalerMade", 3, scaler=1).backward().step(scaler=1)
    assert found(RULE, telling) == []
