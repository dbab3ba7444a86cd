"""The order of an update: each way in which it goes wrong is named at its line, and each right way is passed."""

from tests.audit.rules.making import Telling, found
from truestep.audit.events import Damage, Judged, Share
from truestep.audit.rules import (
    backward_not_scaled,
    clip_before_unscale,
    clip_inside_window,
    missing_update,
    multi_optimizer_one_scaler,
    optimizer_step_direct,
    scale_handled_inside_window,
    unexplained_gradient,
    unscale_twice,
    zero_grad_placement,
)

WRONG = Judged(expected=2.0, observed=2.0 / 1024, cosine=1.0, clipped=1.0)
SAME = Judged(expected=1.0, observed=1.0, cosine=1.0, clipped=1.0)
TURNED = Judged(expected=2.0, observed=2.0, cosine=0.8, clipped=1.0)


def update(telling, *, line=21, **fields):
    return telling.tell("Updated", line, **fields)


def right(windows=2):
    """Plain windows: scaled backward, unscaling, clip, step, update."""
    telling = Telling().tell("ScalerMade").tell("OptimizerMade")
    for _ in range(windows):
        telling.backward().tell("Unscaled", 12, inside=False).tell("Clipped", 13, factor=0.5)
        telling.tell("StepCalled", 20).step()
        update(telling)
    return telling


def test_a_right_order_is_passed_by_every_rule_of_order():
    for module in (
        backward_not_scaled,
        clip_before_unscale,
        clip_inside_window,
        missing_update,
        multi_optimizer_one_scaler,
        optimizer_step_direct,
        scale_handled_inside_window,
        unexplained_gradient,
        unscale_twice,
        zero_grad_placement,
    ):
        assert found(module.RULE, right()) == []


def test_a_clip_of_scaled_gradients_is_an_error_where_it_binds_and_a_warning_where_it_does_not():
    for factor, severity in ((0.001, "error"), (1.0, "warning")):
        telling = Telling().backward().tell("Clipped", 13, carried=1024.0, factor=factor).tell("Unscaled", 20).step(judged=WRONG)
        assert found(clip_before_unscale.RULE, telling) == [(severity, 13)]


def test_a_clip_by_hand_is_one_that_shortens_and_does_not_turn():
    for ratio, cosine, expected in ((0.01, 1.0, [("error", 13)]), (0.01, 0.7, []), (1 / 1024, 1.0, []), (1.5, 1.0, [])):
        telling = Telling().backward().tell("Edited", 13, carried=1024.0, ratio=ratio, cosine=cosine, operation="mul").step()
        assert found(clip_before_unscale.RULE, telling) == expected, (ratio, cosine)


def test_what_a_clip_met_that_was_not_finite_is_another_rules():
    telling = Telling().backward().tell("Clipped", 13, carried=1024.0, finite=False, factor=None).step(completed=False)
    assert found(clip_before_unscale.RULE, telling) == []


def test_clips_between_backwards_of_one_window_are_named_and_those_between_windows_are_not():
    telling = Telling().backward().tell("Clipped", 13).backward().tell("Clipped", 13).step(last=2)
    assert found(clip_inside_window.RULE, telling) == [("error", 13)]
    telling = Telling().backward().tell("Clipped", 13).step().backward().tell("Clipped", 13).step()
    assert found(clip_inside_window.RULE, telling) == []
    telling = Telling().backward().tell("Clipped", 13, factor=1.0).backward().step(last=2)
    assert found(clip_inside_window.RULE, telling) == [("note", 13)]


def test_a_second_step_or_unscaling_without_an_update_is_named_at_the_step_before():
    again = Telling().backward().tell("StepCalled", 20).step().backward().tell("StepCalled", 20)
    assert found(missing_update.RULE, again) == [("error", 20)]
    unscaled = Telling().backward().tell("StepCalled", 20).step().backward().tell("Unscaled", 12, inside=False)
    assert found(missing_update.RULE, unscaled) == [("error", 20)]


def test_a_scaler_that_is_off_asks_for_no_update():
    telling = Telling().tell("ScalerMade", enabled=False)
    for _ in range(2):
        telling.backward(carried="none", scale=1.0).tell("StepCalled", 20).step()
    assert found(missing_update.RULE, telling) == []


def test_two_optimizers_may_step_before_one_update():
    telling = Telling().backward(touched=(0, 1))
    for optimizer in (0, 1):
        telling.tell("StepCalled", 20, optimizer=optimizer).step(optimizer=optimizer)
    update(telling)
    assert found(missing_update.RULE, telling) == []
    assert found(multi_optimizer_one_scaler.RULE, telling) == []


def test_an_update_between_two_optimizers_steps_is_an_error_where_the_scale_moved():
    for after, severity in ((2048.0, "error"), (1024.0, "warning")):
        telling = Telling().backward(touched=(0, 1)).tell("Unscaled", 20).step(20)
        update(telling, line=21, after=after).tell("Unscaled", 22, optimizer=1, scale=after).step(22, optimizer=1)
        assert found(multi_optimizer_one_scaler.RULE, telling) == [(severity, 21)]
        assert found(unscale_twice.RULE, telling) == []


def test_unscaling_or_moving_the_scale_inside_a_window_is_named_and_an_idle_update_is_not():
    opened = Telling().backward().tell("Unscaled", 12, inside=False).backward().tell("Unscaled", 20).step(last=2)
    assert found(scale_handled_inside_window.RULE, opened) == [("error", 12)]
    for after, expected in ((512.0, [("error", 21)]), (1024.0, [])):
        moved = update(Telling().backward(), after=after).backward().tell("Unscaled", 20).step(last=2)
        assert found(scale_handled_inside_window.RULE, moved) == expected


def test_backwards_that_no_step_used_open_no_window():
    telling = Telling().backward().tell("Unscaled", 12, inside=False).tell("Zeroed", 13, dropped=(1,)).backward().step()
    assert found(scale_handled_inside_window.RULE, telling) == []


def test_two_unscalings_after_the_last_backward_are_named_whoever_made_them():
    twice = Telling().backward().tell("Unscaled", 12, inside=False).tell("Unscaled", 13, inside=False).step()
    assert found(unscale_twice.RULE, twice) == [("error", 13)]
    forgot = update(Telling().backward().tell("Unscaled", 12, inside=False), line=14).tell("Unscaled", 20).step()
    assert found(unscale_twice.RULE, forgot) == [("error", 14)]
    by_hand = Telling().backward().tell("Edited", 12, carried=1024.0, ratio=1 / 1024).tell("Unscaled", 20).step()
    assert found(unscale_twice.RULE, by_hand) == [("error", 12)]
    alone = Telling().backward().tell("Edited", 12, carried=1024.0, ratio=1 / 1024).step(scaler=None)
    assert found(unscale_twice.RULE, alone) == []


def test_a_division_by_hand_after_unscale_is_named_unless_it_may_be_that_of_the_microbatches():
    for backwards, expected in ((1, [("error", 14)]), (4, [])):
        telling = Telling()
        for _ in range(backwards):
            telling.backward(scale=4.0)
        telling.tell("Unscaled", 12, inside=False, scale=4.0).tell("Edited", 14, ratio=0.25).step(last=backwards)
        assert found(unscale_twice.RULE, telling) == expected


def test_a_clip_before_the_division_by_a_scale_of_the_scripts_own_is_named():
    for divisor, expected in ((1 / 4096, [("error", 13)]), (0.5, [])):  # 2 is a coefficient
        share = Share(weight=1 / divisor / 8, elements=8.0, node="MseLossBackward0", divisors=(divisor,), multiplied=(divisor,))
        telling = Telling().backward(scale=1.0, carried="none", share=share)
        telling.tell("Clipped", 13, factor=0.1).tell("Edited", 14, ratio=divisor).step()
        assert found(clip_before_unscale.RULE, telling) == expected
        after = Telling().backward(scale=1.0, carried="none", share=share)
        after.tell("Edited", 12, ratio=divisor).tell("Clipped", 13, factor=0.1).step()
        assert found(clip_before_unscale.RULE, after) == []
        by_hand = Telling().backward(scale=1.0, carried="none", share=share)
        by_hand.tell("Edited", 14, ratio=divisor).tell("Edited", 14, ratio=divisor).step()
        assert found(clip_before_unscale.RULE, by_hand) == []  # parameter by parameter


def test_what_torch_refuses_is_named_at_the_call():
    text = "unscale_() has already been called on this optimizer since the last update()."
    telling = Telling().backward().tell("Unscaled", 12, inside=False).tell("Unscaled", 14, inside=False)
    assert found(unscale_twice.RULE, telling.tell("Raised", 14, text=text)) == [("error", 14)]
    text = "No inf checks were recorded prior to update."
    assert found(scale_handled_inside_window.RULE, Telling().backward().tell("Raised", 21, text=text)) == [("error", 21)]
    text = "Attempted step but _scale is None."
    assert found(backward_not_scaled.RULE, Telling().backward(11).tell("Raised", 21, text=text)) == [("error", 11)]


def test_a_direct_step_is_named_where_the_gradients_carry_the_scale_or_are_not_finite():
    assert found(optimizer_step_direct.RULE, Telling().backward().step(scaler=None, carried=1024.0)) == [("error", 20)]
    assert found(optimizer_step_direct.RULE, Telling().backward().step(scaler=None, finite=False)) == [("error", 20)]
    assert found(optimizer_step_direct.RULE, Telling().backward().step(scaler=None)) == []
    plain = Telling().backward(scaler=None, scale=1.0, carried="none").step(scaler=None)
    assert found(optimizer_step_direct.RULE, plain) == []


def test_a_direct_step_right_after_the_scalers_is_named():
    telling = Telling().backward().step(20).step(24, last=0, scaler=None)
    assert found(optimizer_step_direct.RULE, telling) == [("error", 24)]


def test_a_backward_without_the_scale_is_named_where_its_gradients_are_divided():
    for carried in ("none", "part"):
        telling = Telling().backward(10).backward(11, carried=carried, scale=1.0).tell("Unscaled", 20).step(last=2)
        assert found(backward_not_scaled.RULE, telling) == [("error", 11)]
    after = Telling().backward(10).tell("Unscaled", 12, inside=False).backward(11, carried="none", scale=1.0).step(last=2)
    assert found(backward_not_scaled.RULE, after) == []  # in original units by then


def test_a_fused_step_divides_by_itself():
    telling = Telling().tell("ScalerMade").backward(11, carried="none", scale=1.0).step(fused=True)
    assert found(backward_not_scaled.RULE, telling) == [("error", 11)]


def test_clearing_inside_a_window_is_named_where_the_rest_is_too_light_or_all_of_it_is_gone():
    inside = Telling().backward().tell("Zeroed", 9, dropped=(1,)).backward().step(dropped=(1,))
    assert found(zero_grad_placement.RULE, inside)[0] == ("error", 9)
    other_line = Telling().backward(10).tell("Zeroed", 9, dropped=(1,)).backward(15).step(dropped=(1,))
    assert found(zero_grad_placement.RULE, other_line) == []
    used = Telling().backward().tell("Zeroed", 9, dropped=(1,), weights_moved=True).backward().step(dropped=(1,))
    assert found(zero_grad_placement.RULE, used) == []
    before_step = Telling().backward().tell("Zeroed", 12, dropped=(1,)).step(last=0, dropped=(1,))
    assert found(zero_grad_placement.RULE, before_step)[0] == ("error", 12)


def test_gradients_that_all_weights_moved_away_from_are_named_where_another_backward_is_added_to_them():
    around = Telling().backward(10).backward(12, kept=(0,), elsewhere=(0,)).step(last=2, judged=TURNED)
    assert found(zero_grad_placement.RULE, around) == [("warning", 12)]
    assert found(unexplained_gradient.RULE, around) == []
    places = Telling().backward(10).backward(10, kept=(0,), elsewhere=(0,)).backward(10, kept=(0,), elsewhere=(0,))
    assert found(zero_grad_placement.RULE, places.step(last=3)) == []  # a sum over several places: accumulation-weight's
    search = Telling().backward(10).backward(10, kept=(0,), elsewhere=(0,)).backward(10, kept=(0,), elsewhere=(0,))
    assert found(zero_grad_placement.RULE, search.step(last=3, closure=True)) == [("warning", 10)]


def kept(judged, damage=None):
    telling = Telling().tell("OptimizerMade")
    telling.backward(touched=(0,)).step(judged=SAME)
    return telling.backward(touched=(0,), kept=(0,)).step(judged=judged, damage=damage)


def test_gradients_that_nothing_clears_are_told_once_with_their_damage():
    far, damage = Judged(expected=1.0, observed=2.0, cosine=1.0, clipped=1.0), Damage(wrong=2.0, right=1.0, cosine=1.0)
    (measured,) = zero_grad_placement.RULE(kept(far, damage).story())
    assert (measured.severity, measured.line, measured.damage) == ("error", 10, str(damage))
    (small,) = zero_grad_placement.RULE(kept(SAME).story())
    assert "hardly any" in small.damage
    assert "loss scale (1024) twice" in small.damage


def test_gradients_that_a_step_has_used_and_the_next_window_holds_are_named():
    kept = Telling().backward(10).step().backward(10, kept=(0,)).step(judged=TURNED)
    assert ("error", 10) in found(zero_grad_placement.RULE, kept)
    accumulated = Telling().backward(10).backward(10, kept=(0,)).step(last=2)
    assert found(zero_grad_placement.RULE, accumulated) == []


def test_a_turned_gradient_is_unexplained_unless_the_script_wrote_it():
    assert found(unexplained_gradient.RULE, Telling().backward().step(judged=TURNED)) == [("warning", 20)]
    assert found(unexplained_gradient.RULE, Telling().backward().step(judged=WRONG)) == [("note", 20)]
    assert found(unexplained_gradient.RULE, Telling().backward().tell("Edited", 12).step(judged=TURNED)) == []
    assert found(unexplained_gradient.RULE, Telling().backward().step(judged=TURNED, completed=False)) == []


def test_the_damage_is_told_in_the_direction_in_which_it_lies():
    assert "1,024 times too small" in str(Damage(wrong=1.0, right=1024.0, cosine=1.0))
    assert "2 times too large" in str(Damage(wrong=2.0, right=1.0, cosine=None))
    assert str(Damage(wrong=1.0, right=1.0, cosine=0.5)).startswith("the update was as long as the right one, its cosine")
    assert "0 long where 3 is right" in str(Damage(wrong=0.0, right=3.0, cosine=None))


def test_a_backward_made_for_another_optimizer_that_stays_in_this_one_is_named():
    leak = Telling().backward(10, touched=(0, 1)).step(20, optimizer=1).backward(30).step(40, last=2)
    assert ("warning", 10) in found(zero_grad_placement.RULE, leak)
    together = Telling().backward(10, touched=(0, 1)).backward(30).step(40, last=2).step(41, optimizer=1, last=2)
    assert found(zero_grad_placement.RULE, together) == []
