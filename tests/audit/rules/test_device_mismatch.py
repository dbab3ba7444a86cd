"""A scaler or a region of another device is named where it is made; a script that has both off is not at fault."""

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.device_mismatch import RULE

OFF = {"enabled": False, "device": "cuda", "scale": 1.0}


def test_a_scaler_that_is_off_while_float16_runs_is_named():
    assert found(RULE, Telling().tell("ScalerMade", 19, **OFF).tell("Autocast").backward(scale=1.0).step()) == [("warning", 19)]


def test_a_scaler_that_asks_for_cuda_is_named_too(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nscaler = torch.amp.GradScaler('cpu', enabled=torch.cuda.is_available())\n")
    made = at(2, path=str(script))
    telling = Telling().tell("ScalerMade", made, asked=False, **OFF).tell("Autocast").backward(scale=1.0).step()
    assert found(RULE, telling) == [("warning", 2)]


def test_a_scaler_that_is_meant_to_be_off_is_no_finding():
    telling = Telling().tell("ScalerMade", 19, asked=False, **OFF).tell("Autocast").backward(scale=1.0).step()
    assert found(RULE, telling) == []


def test_without_float16_a_scaler_that_is_off_is_no_finding():
    telling = Telling().tell("ScalerMade", 19, **OFF).backward(scale=1.0, low="bfloat16").step()
    assert found(RULE, telling) == []


def test_a_region_of_a_missing_device_is_named_beside_a_scaler_that_is_on():
    missing = {"device": "cuda", "enabled": False}
    assert found(RULE, Telling().tell("ScalerMade").tell("Autocast", 8, **missing).backward(low=None)) == [("warning", 8)]
    assert found(RULE, Telling().tell("Autocast", 8, **missing).backward(low=None, carried="none")) == [("note", 8)]


def test_a_region_that_was_asked_to_be_off_is_no_finding():
    assert found(RULE, Telling().tell("ScalerMade").tell("Autocast", 8, enabled=False, asked=False).backward(low=None)) == []
