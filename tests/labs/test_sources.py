"""What labs say of their sources can be looked up in the torch that is installed, and what cannot is said without a quotation."""

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest
import torch
from torch.amp import GradScaler

from truestep.labs.shelf import labs

LABS = {each.name: each for each in labs()}
SAYS = {
    "constant-scale": (GradScaler.update, "should only be called at the end of the iteration, after `scaler.step(optimizer)`"),
    "degenerate-windows": (torch.nn.CrossEntropyLoss, "the loss is averaged over non-ignored targets"),
    "float16-full-batch": (torch.optim.Adam, "Adam: A Method for Stochastic Optimization"),
    "mean-of-means": (torch.nn.parallel.DistributedDataParallel, "gradients between different nodes are averaged"),
    "not-the-full-batch": (torch.nn.BatchNorm1d, "Batch Normalization: Accelerating Deep Network Training"),
    "one-backward": (torch.Tensor.backward, "the graph used to compute the grads will be freed"),
    "declared-clock": (
        torch.optim.lr_scheduler.LRScheduler.step,
        "Detected call of `lr_scheduler.step()` before `optimizer.step()`",
    ),
    "fused-skips": (GradScaler.step, "This optimizer has customized scale-handling logic"),
    "missed-overflows": (GradScaler, "If infs/NaNs are found, `scaler.step(optimizer)` skips"),
    "ninety": (GradScaler.step, "Otherwise, `optimizer.step()` is skipped"),
    "skipped-statistics": (GradScaler.step, "skipped to avoid corrupting the params"),
    "scale-out-of-range": (GradScaler.update, "the scale is multiplied by `backoff_factor` to reduce it"),
    "without-update": (GradScaler, "scaler.update()"),
    "autocast-lists": (torch.autocast, "Autocast Op Reference"),
    "clip-order": (GradScaler.unscale_, "using :meth:`unscale_` to enable clipping of unscaled gradients"),
    "clip-epsilon": (torch.nn.utils.clip_grads_with_norm_, "clip_coef = max_norm / (total_norm + 1e-6)"),
}
"""Of labs whose source is torch, where it says so, and in which words."""


def words(text):
    """Without what line breaks, string pieces, comments and markup put between words."""
    return " ".join(re.sub(r'["\'#]|r"""', " ", text).replace("``", "`").split())


@pytest.mark.parametrize("name", SAYS)
def test_torch_says_what_a_source_says_that_it_says(name):
    thing, said = SAYS[name]
    assert thing.__name__ in LABS[name].source or thing.__module__ in LABS[name].source
    assert words(said) in words(f"{thing.__doc__} {inspect.getsource(inspect.unwrap(thing))}")


def test_the_scaler_has_the_defaults_of_the_source():
    named = dict(re.findall(r"(\w+_\w+) ([\d.]+)", LABS["short-clean-run"].source))
    signature = inspect.signature(GradScaler)
    assert {name: float(value) for name, value in named.items()} == {name: signature.parameters[name].default for name in named}


def test_the_header_of_the_source_lists_what_the_claim_lists():
    header = (Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h").read_text()
    lists = dict(re.findall(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)+.*)", header))
    low, high = lists["LOWER_PRECISION_FP"], lists["FP32"] + lists["FP32_SET_OPT_DTYPE"]
    assert all(f"_({each})" in low for each in ("matmul", "linear", "bmm", "conv1d"))
    assert all(re.search(rf"_\({each}\b", high) for each in ("softmax", "layer_norm", "mse_loss", "exp", "log", "pow", "sum"))


@pytest.mark.parametrize("name", LABS)
def test_what_a_source_names_of_torch_is_there(name):
    for path in re.findall(r"\btorch(?:\.\w+)+", LABS[name].source):
        reduce(getattr, path.split(".")[1:], torch)


@pytest.mark.parametrize("name", LABS)
def test_a_source_quotes_nothing_and_names_no_place_that_cannot_be_looked_up(name):
    assert not re.search(r"\"|(^|\s)'|(section|clause|chapter|figure|table|algorithm|page|§) ?\d", LABS[name].source)
