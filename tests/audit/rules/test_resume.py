"""A checkpoint that loses the scale or an open window is named; one that holds all, or needs none of it, is not."""

import textwrap

from tests.audit.rules.making import Telling, at, found
from truestep.audit.rules.resume import RULE


def trained(telling=None, *, after=512.0, enabled=True):
    telling = telling or Telling()
    telling.tell("ScalerMade", enabled=enabled).backward().step()
    return telling.tell("Updated", 21, before=1024.0, after=after)


def test_a_save_of_the_optimizer_without_the_scaler_is_named():
    telling = trained().tell("Saved", 30)
    assert found(RULE, telling) == [("warning", 30)]
    assert "it was 512 and starts at 1024 again" in next(iter(RULE(telling.story()))).message


def test_a_save_of_weights_alone_is_right():
    assert found(RULE, trained().tell("Saved", 30, optimizers=0)) == []


def test_a_scaler_that_is_saved_elsewhere_is_saved():
    assert found(RULE, trained().tell("Saved", 30).tell("Saved", 31, models=0, optimizers=0, scalers=1)) == []


def test_a_scaler_that_is_off_has_nothing_to_save():
    assert found(RULE, trained(enabled=False).tell("Saved", 30)) == []


def test_a_save_of_an_open_window_is_named_beside_the_step():
    telling = Telling().backward().backward()
    telling.tell("Saved", at(5, (30, "<module>"), function="dump"), open=(1, 2)).backward().step(20, last=3)
    assert found(RULE, telling) == [("warning", 30)]


def test_gradients_that_the_first_window_of_a_resumed_run_lacks_are_named_at_the_save():
    for held, expected in ((1, [("warning", 30)]), (3, [])):
        telling = Telling()
        for _ in range(2):
            telling.backward().backward().backward().step(last=3)
        telling.backward().backward().tell("Saved", 30, open=(7, 8)).tell("Restored", 40, which=1)
        for _ in range(held):
            telling.backward(touched=(1,))
        assert found(RULE, telling.step(optimizer=1, last=held)) == expected


def test_gradients_that_no_step_will_use_make_no_window():
    telling = Telling().backward().tell("Saved", 30, open=(1,)).tell("Zeroed", dropped=(1,)).backward().step()
    assert found(RULE, telling) == []


def test_weights_may_be_saved_inside_a_window():
    assert found(RULE, Telling().backward().tell("Saved", 30, optimizers=0, open=(1,)).step()) == []


def resumed(telling, *, scaler):
    trained(telling).tell("Saved", 30, scalers=1).tell("ScalerMade", scaler=1).tell("Loaded", 40)
    telling.tell("Restored", 41, which=1)
    if scaler:
        telling.tell("Restored", 43, what="scaler", which=1)
    return telling.tell("OptimizerMade", optimizer=1).backward().step(optimizer=1, scaler=1, completed=False)


def test_a_state_of_the_scaler_that_was_left_in_the_checkpoint_is_named():
    assert found(RULE, resumed(Telling(), scaler=False)) == [("warning", 41), ("note", 40)]


def test_a_state_that_was_restored_is_right():
    assert found(RULE, resumed(Telling(), scaler=True)) == []


def test_a_checkpoint_that_was_read_for_its_weights_alone_is_right():
    assert found(RULE, trained().tell("Saved", 30, scalers=1).tell("Loaded", 40).backward().step()) == []


def test_the_test_that_kept_the_state_from_being_restored_is_named(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        textwrap.dedent("""
            scaler = torch.amp.GradScaler()
            state = torch.load(path)
            optimizer.load_state_dict(state["optimizer"])
            if "amp" in state:
                scaler.load_state_dict(state["amp"])
            """)
    )
    telling = Telling(path).tell("ScalerMade", 2).tell("Loaded", 3).tell("Restored", 4).backward(8).step(9)
    assert found(RULE, telling) == [("warning", 5), ("note", 4)]
