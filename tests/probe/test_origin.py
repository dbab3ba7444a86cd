"""Finding out what a bad value of a forward was computed from."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from truestep.probe.origin import Origin, Trace

INF, NAN = math.inf, math.nan
ONES, BAD, MASK = torch.ones(2, 2), torch.tensor([[NAN, 1.0], [1.0, 1.0]]), torch.tensor([[0.0, -INF], [0.0, 0.0]])


class Run(nn.Module):
    """Runs `steps(self, *inputs)` over its children, which have names."""

    def __init__(self, steps: Callable[..., Tensor], **children: nn.Module) -> None:
        super().__init__()
        self.steps = steps
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.steps(self, *inputs)


def traced(model: nn.Module, *inputs: Tensor) -> tuple[Tensor, Trace]:
    trace = Trace(model, [(f"input {i}", tensor) for i, tensor in enumerate(inputs)])
    with trace.watching():
        return model(*inputs), trace


def origin(steps: Callable[..., Tensor], *inputs: Tensor) -> Origin | None:
    result, trace = traced(Run(lambda self, *given: steps(*given)), *inputs)
    return trace.origin(result)


def in_place(x: Tensor) -> Tensor:
    x = x.clone()
    x[0].div_(0)
    return x


def copied_into_unwritten_memory(x: Tensor, bad: Tensor) -> Tensor:
    out = torch.empty(2, 2).fill_(NAN)
    out.copy_(x)
    return out + bad


@pytest.mark.parametrize(
    ("steps", "inputs", "role", "place"),
    [
        (lambda x: x, [ONES], None, None),
        (lambda x: x.log(), [torch.zeros(2)], "operation", "the model"),
        (lambda x: (x * 1000).exp() * 0, [ONES], "operation", "the model"),
        (lambda x: x.view(4)[:1] * 2, [BAD], "input", "input 0"),
        (lambda x: torch.from_numpy(x.numpy()) + 1, [BAD], "input", "input 0"),
        (lambda x, y: x @ y, [ONES, BAD], "input", "input 1"),
        (lambda x, y: (x / 0 * 0) + y, [ONES, BAD], "operation", "the model"),
        (lambda x, y: y + (x / 0 - x / 0), [ONES, BAD], "input", "input 1"),
        (lambda x, y: x / 0 + y, [ONES, BAD], "input", "input 1"),
        (lambda x, y: (x / 0 * 0) + (y - y), [ONES, MASK], "operation", "the model"),
        (lambda x, y: (y - y) + (x / 0 * 0), [ONES, MASK], "input", "input 1"),
        (lambda x: x.sum(), [MASK], "input", "input 0"),
        (lambda x: x - x, [MASK], "input", "input 0"),
        (lambda x, y: (x + y).softmax(1) * (x / 0), [ONES, MASK], "operation", "the model"),
        (lambda x: x * INF, [ONES], "operation", "the model"),
        (lambda x: torch.tensor(np.array([NAN])) + x.sum(), [ONES], "constant", "a constant"),
        (in_place, [ONES], "operation", "the model"),
        (copied_into_unwritten_memory, [ONES, BAD], "input", "input 1"),
        (lambda x: x.masked_fill(x.isnan(), 0.0), [BAD], None, None),
        (lambda x: x.to_sparse() * INF, [ONES], "operation", "the model"),
    ],
)
def test_a_bad_value_is_followed_to_its_origin(
    steps: Callable[..., Tensor], inputs: list[Tensor], role: str | None, place: str | None
) -> None:
    found = origin(steps, *inputs)
    assert (None if found is None else found.role, None if found is None else found.place) == (role, place)


@pytest.mark.parametrize(
    ("steps", "overflow"),
    [
        (lambda x: (x * 1000).exp(), True),
        (lambda x: x * 1e38 * 1e38, True),
        (lambda x: (x * 1e30).square(), True),
        (lambda x: (x * 1e30) @ (x * 1e30), True),
        (lambda x: x / 1e-40, True),
        (lambda x: (x * torch.tensor([1e30, -1e30])).var(), True),
        (lambda x: (x * 1e5).half(), True),
        (lambda x: (x * 1000).exp_(), True),
        (lambda x: x / 0, False),
        (lambda x: (x - x) / (x - x), False),
        (lambda x: (x - 1).log(), False),
        (lambda x: (x - 2).sqrt(), False),
        (lambda x: x * INF, False),
        (lambda x: (x - 1).clone().reciprocal_(), False),
    ],
)
def test_a_number_too_large_for_its_format_is_told_from_one_that_is_not_defined(
    steps: Callable[..., Tensor], overflow: bool
) -> None:
    found = origin(steps, ONES)
    assert found is not None
    assert (found.role, found.overflow) == ("operation", overflow)


def test_an_operation_that_draws_draws_once() -> None:
    torch.manual_seed(0)
    result, trace = traced(Run(lambda self, x: torch.native_dropout(x, 0.5, True)[0]), torch.full((64,), 3e38))
    after = torch.rand(1)
    assert "dropout in the model" in trace.origin(result).text
    assert trace.origin(result).overflow
    torch.manual_seed(0)
    torch.native_dropout(torch.ones(64), 0.5, True)
    assert torch.equal(after, torch.rand(1))


def test_the_innermost_module_and_the_line_are_named() -> None:
    block = Run(lambda self, x: self.act(self.fc(x)), fc=nn.Linear(2, 2), act=Run(lambda self, x: x.sum() / 0))
    result, trace = traced(Run(lambda self, x: self.block(x), block=block), ONES)
    found = trace.origin(result)
    assert found.place == "block.act"
    assert found.text.startswith("div in Run 'block.act' (test_origin.py:")
    assert found.text.endswith("of finite numbers")
    trace = Trace(nn.Linear(2, 2), [])
    with trace.watching():
        outside = ONES / 0
    assert trace.origin(outside).place == "the loss"


def test_parameters_and_buffers_are_named_and_masks_among_them_are_not() -> None:
    model = nn.BatchNorm1d(2).eval()
    model.running_mean[0] = NAN
    result, trace = traced(model, ONES)
    assert (trace.origin(result).role, trace.origin(result).place) == ("parameter", "running_mean")
    model = Run(lambda self, x: ((x + self.mask).softmax(1) + self.frozen.exp()) @ self.fc.weight, fc=nn.Linear(2, 2))
    model.register_buffer("mask", MASK)
    model.frozen = nn.Parameter(MASK, requires_grad=False)
    with torch.no_grad():
        model.fc.weight[0, 0] = INF
    result, trace = traced(model, ONES)
    assert (trace.origin(result).role, trace.origin(result).place) == ("parameter", "fc.weight")


def test_what_batch_norm_writes_is_not_what_it_was_given() -> None:
    result, trace = traced(nn.BatchNorm1d(2), torch.tensor([[INF, 1.0], [1.0, 2.0]]))
    assert (trace.origin(result).role, trace.origin(result).place) == ("input", "input 0")


def test_a_row_masked_whole_is_the_softmaxs_and_names_the_mask() -> None:
    found = origin(lambda x, mask: (x + mask).softmax(1), ONES, torch.full((2, 2), -INF))
    assert found.role == "operation"
    assert found.text.startswith("softmax in the model")
    assert "(input 1: it holds -inf, first at [0, 0])" in found.text
    found = origin(lambda x: x.masked_fill(x > 0, -INF).softmax(1), ONES)
    assert "made nan of an infinity (masked_fill in the model" in found.text


def test_a_node_of_the_graph_is_told_by_where_its_forward_ran_and_what_it_kept() -> None:
    model = Run(lambda self, x, bad: (self.fc(x).exp() * bad).sum(), fc=nn.Linear(2, 2))
    loss, trace = traced(model, ONES, BAD)
    multiplied = loss.grad_fn.next_functions[0][0]
    assert trace.site(multiplied).operation == "mul"
    assert trace.behind(multiplied).place == "input 1"
    exponential = multiplied.next_functions[0][0]
    assert (trace.site(exponential).operation, trace.site(exponential).module) == ("exp", "the model")
    assert trace.behind(exponential) is None
    assert trace.site(exponential.next_functions[0][0]).module == "fc"


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.saved_tensors[0], None


def test_what_a_function_of_ones_own_kept_is_read_too() -> None:
    loss, trace = traced(Run(lambda self, x, bad: Times.apply(self.fc(x), bad), fc=nn.Linear(2, 2)), ONES, BAD)
    assert trace.behind(loss.grad_fn).place == "input 1"


def test_what_a_hook_has_packed_is_left_to_it() -> None:
    model = Run(lambda self, x, bad: (self.fc(x) * bad).sum(), fc=nn.Linear(2, 2))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.numpy(), torch.from_numpy):
        loss, trace = traced(model, ONES, BAD)
    assert trace.behind(loss.grad_fn.next_functions[0][0]) is None


def test_no_hook_is_left_behind() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Run(lambda self, x: x / 0))
    with pytest.raises(RuntimeError):
        traced(model, torch.ones(1, 3))
    traced(model, ONES)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_modules_that_take_no_hook_are_passed() -> None:
    model = nn.Sequential(torch.jit.script(nn.Tanh()), Run(lambda self, x: x / 0))
    result, trace = traced(model, ONES)
    assert trace.origin(result).place == "1"


def test_a_compiled_module_is_run_as_it_is_written() -> None:
    compiled = []

    def backend(graph: torch.fx.GraphModule, examples: object) -> Callable[..., object]:
        compiled.append(graph)
        return graph.forward

    result, trace = traced(torch.compile(nn.Sequential(nn.Linear(2, 2), Run(lambda self, x: x / 0)), backend=backend), ONES)
    assert trace.origin(result).place == "_orig_mod.1"
    assert compiled == []
