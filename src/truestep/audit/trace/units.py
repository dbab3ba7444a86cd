"""What operations do to the units of what they are given: keep them, raise them to a power, or lose them."""

from __future__ import annotations

from typing import Any, Literal

Kind = Literal["keeps", "powers", "products", "adds", "compares", "chooses", "bends", "leaves", "other"]

POWERS = {
    "pow": 2.0,
    "square": 2.0,
    "sqrt": 0.5,
    "rsqrt": -0.5,
    "reciprocal": -1.0,
    "dot": 2.0,
    "var": 2.0,
}
"""The power that an operation raises its argument to, where no number says it."""

_NAMES: dict[Kind, str] = {
    "keeps": "norm vector_norm matrix_norm linalg_norm linalg_vector_norm abs sum mean max amax min amin std stack cat float "
    "double half bfloat16 to clone detach view reshape flatten ravel squeeze unsqueeze getitem cpu contiguous"
    " neg permute "
    "transpose t expand expand_as quantile median matmul rmatmul mm bmm mv einsum relu cumsum chunk split unbind topk sort type "
    "type_as nansum hypot get_total_norm copy",
    "powers": " ".join(POWERS),
    "products": "mul rmul imul multiply div truediv rtruediv itruediv true_divide divide",
    "adds": "add radd iadd sub rsub isub subtract",
    "compares": "gt ge lt le eq ne greater less greater_equal less_equal",
    "chooses": "where masked_fill masked_select and or xor invert bitwise_not bitwise_and bitwise_or "
    "logical_not logical_and logical_or logical_xor",
    "bends": "exp log log1p expm1 tanh sigmoid softplus clamp clip clamp_min clamp_max huber_loss smooth_l1_loss mse_loss "
    "l1_loss sign round softmax log_softmax maximum minimum",
    "leaves": "item tolist float__ format numpy int__ array histc histogram repr",
}
_KINDS: dict[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def words(name: str) -> Kind:
    """The kind of an operation, by torch's name for it, in place or not."""
    if name in ("__float__", "__int__"):
        return "leaves"
    return _KINDS.get(name.removeprefix("_foreach").strip("_"), "other")


def power(name: str, given: list[Any]) -> float:
    """The power that it raises its argument to."""
    numbers = [float(each) for each in given if isinstance(each, (int, float)) and not isinstance(each, bool)]
    return numbers[0] if "pow" in name and numbers else POWERS.get(name.strip("_"), 1.0)
