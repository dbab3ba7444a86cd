"""Finding the arrays in whatever a microbatch, an input or an output is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def first_of(tree: Any) -> Any:
    """What comes first in a tuple or list, and anything else itself: of nearly every microbatch its first array, without a walk.

    >>> first_of(([1, 2], "text")), first_of([]), first_of("text")
    ([1, 2], [], 'text')
    """
    return tree[0] if type(tree) in (tuple, list) and tree else tree


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in `tree` that has a shape, with its path: depth first through mappings, tuples, lists and dataclasses.

    >>> import torch
    >>> [path for path, leaf in leaves({"input": torch.zeros(2), "more": [torch.ones(3), "text"]})]
    ["['input']", "['more'][0]"]
    """
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, (tuple, list)):  # before all else: a tuple with names may call one of its parts "shape"
        for index, branch in enumerate(tree):
            yield from leaves(branch, f"{path}[{index}]")
    elif isinstance(tree, Mapping):
        for key, branch in tree.items():
            yield from leaves(branch, f"{path}[{key!r}]")
    elif hasattr(tree, "shape"):
        yield path, tree
    elif is_dataclass(tree) and not isinstance(tree, type):
        for field in fields(tree):
            yield from leaves(getattr(tree, field.name), f"{path}.{field.name}")
