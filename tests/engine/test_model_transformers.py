"""Models that compute their own loss, as those of transformers do: real ones, tiny, from configurations alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import by_hand, everything, same, weights
from truestep.errors import WeightError

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported: nothing here may ask the network
transformers = pytest.importorskip("transformers")
Tokens = dict[str, Tensor]
WORDS = 11


def gpt2(**changes: Any) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 12, "vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | changes))


def llama() -> nn.Module:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            vocab_size=WORDS,
            tie_word_embeddings=True,
        )
    )


def bert() -> nn.Module:
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            vocab_size=WORDS,
            max_position_embeddings=12,
            num_labels=3,
        )
    )


def t5() -> nn.Module:
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2, vocab_size=WORDS, decoder_start_token_id=0, pad_token_id=0
        )
    )


def vit() -> nn.Module:
    torch.manual_seed(0)
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            image_size=4,
            patch_size=2,
            num_labels=3,
        )
    )


def text(n: int, seed: int, *, length: int = 6, lost: int = 0) -> Tokens:
    """Word numbers and labels of which the last `lost` of the first row are not scored."""
    words = torch.randint(1, WORDS, (n, length), generator=torch.Generator().manual_seed(seed))
    labels = words.clone()
    labels[0, length - lost :] = -100
    return {"input_ids": words, "labels": labels}


def classified(n: int, seed: int) -> Tokens:
    words = text(n, seed)["input_ids"]
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words[:, 0] % 3}


def pictures(n: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"pixel_values": torch.randn(n, 3, 4, 4, generator=generator), "labels": torch.arange(n) % 3}


def own_loss(model: nn.Module, microbatch: Tokens) -> Tensor:
    return model(**microbatch).loss


def shifted(microbatch: Tokens) -> Tensor:
    """The scored targets of a model that predicts the next word: none is predicted for the first."""
    return (microbatch["labels"][:, 1:] != -100).sum()


def scored(microbatch: Tokens) -> Tensor:
    return (microbatch["labels"] != -100).sum()


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], Any], Callable[[Any], Any]]] = {
    "gpt2": (gpt2, lambda n, seed: text(n, seed, lost=seed % 4), shifted),
    "llama": (llama, lambda n, seed: text(n, seed, lost=seed % 4), shifted),
    "t5": (t5, lambda n, seed: text(n, seed, lost=seed % 4), scored),
    "bert": (bert, classified, lambda microbatch: len(microbatch["labels"])),
    "vit": (vit, pictures, lambda microbatch: len(microbatch["labels"])),
}


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_a_model_with_a_loss_of_its_own_trains_bit_for_bit_as_by_hand(name: str, policy: str) -> None:
    built, data, weight = CASES[name]
    hand, ours = built().train(), built().train()
    steps = torch.optim.AdamW(hand.parameters(), lr=1e-2)
    update = truestep.Update(ours, torch.optim.AdamW(ours.parameters(), lr=1e-2), loss=own_loss, weight=weight, policy=policy)
    windows = [[data(3, seed), data(2, seed + 5)] for seed in range(3)]
    torch.manual_seed(1)  # of dropout
    for window in windows:
        counts = [float(weight(part)) for part in window]
        by_hand(hand, steps, window, own_loss, counts, torch.bfloat16 if policy == "bf16" else None)
    torch.manual_seed(1)
    outcomes = [update(window) for window in windows]
    assert same(weights(hand), weights(ours))
    assert outcomes[0].weight_check.startswith("equals the loss's denominator")


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_labels_counted_before_the_shift_inside_the_model_are_refused_with_both_numbers(name: str) -> None:
    built, data, _ = CASES[name]
    model = built()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=own_loss, weight=scored)
    before = everything(update)
    with pytest.raises(WeightError, match="declared weight is 17, and the loss is a mean over 14") as caught:
        update([data(3, 1)])
    assert "shifted by one" in caught.value.hint
    assert same(before, everything(update))


def test_a_skip_of_a_tied_model_leaves_it_as_it_was_and_names_the_weight() -> None:
    model = gpt2()
    steps = torch.optim.AdamW(model.parameters(), lr=1e-2)
    update = truestep.Update(model, steps, loss=own_loss, weight=shifted)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert update([text(2, 0)]).completed
    with torch.no_grad():
        model.transformer.wte.weight[0, 0] = float("inf")  # a word that no text holds, and every softmax does
    before = everything(update)
    skip = update([text(2, 1), text(2, 2)]).skip
    assert (skip.reason, skip.place) == (truestep.Reason.PARAMETER, "transformer.wte.weight")
    assert same(before, everything(update))
    assert model.lm_head.weight is model.transformer.wte.weight


def test_a_loss_over_the_items_of_the_window_is_a_share_and_over_one_item_a_sum() -> None:
    """transformers' own loops pass num_items_in_batch, the scored targets of the whole window."""
    window = [text(3, 0, lost=3), text(2, 1)]
    total = sum(int(shifted(part)) for part in window)
    gradients = []
    for loss_is, items in (("mean", None), ("sum", 1), ("share", total)):
        model = gpt2()
        update = truestep.Update(
            model.eval(),  # without dropout the three differ by rounding alone
            torch.optim.SGD(model.parameters(), lr=0.0),
            loss=lambda model, part, items=items: model(**part, num_items_in_batch=items).loss,
            loss_is=loss_is,
            weight=None if loss_is == "share" else shifted,
        )
        outcome = update(window)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        assert outcome.loss == pytest.approx(losses_by_hand(window, total), rel=16 * 2.0**-24)  # a mean of up to 13 terms
    # The same terms, divided by the total early or late: that costs a rounding or two, and those of two layers of width 8 and of
    # the softmax, fewer than 100 on any way down, then round other numbers than before, in each of the two that are compared.
    for gradient in gradients[1:]:
        assert float((gradient - gradients[0]).norm()) <= 2 * 100 * 2.0**-24 * float(gradients[0].norm())


def losses_by_hand(window: list[Tokens], total: int) -> float:
    model = gpt2().eval()
    return sum(own_loss(model, part).item() * int(shifted(part)) for part in window) / total


def test_a_loss_over_the_items_of_the_window_that_is_called_a_mean_is_refused() -> None:
    model = gpt2()
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, part: model(**part, num_items_in_batch=25).loss,
        weight=shifted,
    )
    with pytest.raises(WeightError, match=r"declared weight is 15, and the loss is a mean over 25") as caught:
        update([text(3, 0), text(2, 1)])
    assert "loss_is='share'" in caught.value.hint


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_checkpointed_activations_give_the_same_bits(policy: str) -> None:
    plain, sparing = gpt2().train(), gpt2(use_cache=False).train()
    sparing.activation_checkpointing_enable()  # not reentrant, as torch advises
    for model in (plain, sparing):
        update = truestep.Update(
            model, torch.optim.AdamW(model.parameters(), lr=1e-2), loss=own_loss, weight=shifted, policy=policy
        )
        torch.manual_seed(1)
        for seed in range(2):
            assert update([text(3, seed), text(2, seed + 5)]).completed
    assert same(weights(plain), weights(sparing))


def test_a_microbatch_may_be_what_transformers_makes_of_words() -> None:
    model = gpt2()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=own_loss, weight=shifted)
    outcome = update([transformers.BatchEncoding(text(3, 0)), transformers.BatchEncoding(text(2, 1))])
    assert outcome.examples == 5
    assert outcome.weight == 25.0
