"""Buffers that a skipped attempt left unfit are named where they were written; those that were put back are not."""

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.skipped_attempt_side_effect import RULE


def test_a_buffer_that_stays_unfit_is_named_at_the_forward():
    assert found(RULE, Telling().backward().step(completed=False).tell("Poisoned", 9)) == [("error", 9)]


def test_a_buffer_that_was_put_back_is_right():
    telling = Telling().backward().step(completed=False).tell("Poisoned", 9).backward().tell("Healed", None)
    assert found(RULE, telling) == []


def test_another_modules_buffer_was_not_put_back():
    telling = (
        Telling()
        .backward()
        .step(completed=False)
        .tell("Poisoned", 9)
        .backward()
        .tell("Healed", None, module="BatchNorm1d 'other'")
    )
    assert found(RULE, telling) == [("error", 9)]


def test_the_call_that_overflowed_first_is_the_forward_that_is_meant():
    telling = Telling().backward().step().tell("Overflowed", at(3, (8, "<module>"), function="embed")).backward()
    assert found(RULE, telling.step(completed=False).tell("Poisoned", 9)) == [("error", 8)]


CLASS = """
class Level(nn.Module):
    def __init__(self):
        self.level = torch.ones(2)
        self.count = torch.zeros(())
    def forward(self, x):
        self.count += 1
        {write}
        return x / self.level
"""


def written(tmp_path, write, beside=False):
    path = tmp_path / "train.py"
    path.write_text("from norms import Level\n" if beside else CLASS.format(write=write))
    if beside:
        (tmp_path / "norms.py").write_text(CLASS.format(write=write))
    telling = Telling(path).backward().step(completed=False).tell("Poisoned", 1, module="Level 'level'", buffers=("level",))
    return [(finding.path.rpartition("/")[2], finding.line) for finding in RULE(telling.story())]


def test_a_module_of_the_scripts_own_is_named_where_it_writes(tmp_path):
    writes = ("self.level.lerp_(x, 0.1)", "self.level = x", "self.other, self.level = x", "self.level *= x", "self.level[0] = x")
    assert {tuple(written(tmp_path, each)) for each in writes} == {(("train.py", 8),)}
    assert written(tmp_path, "self.level.mul_(0.9).add_(x)") == [("train.py", 8)]


def test_a_module_of_a_file_beside_the_script_is_named_there(tmp_path):
    assert written(tmp_path, "self.level.copy_(x)", beside=True) == [("norms.py", 8)]
