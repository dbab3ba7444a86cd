"""The same script as its author would have written it for the CPU, with automatic casts to float16."""

from __future__ import annotations

import re
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"

ONLY = "  # CUDA only"
"""Ends a line that has no counterpart on the CPU."""

CHANGES = (
    (
        "from torch.cuda.amp import GradScaler, autocast, custom_bwd, custom_fwd",
        "from functools import partial\nfrom torch.amp import custom_bwd, custom_fwd",
    ),
    ("@custom_fwd(cast_inputs=", '@custom_fwd(device_type="cpu", cast_inputs='),
    ("@custom_bwd", '@partial(custom_bwd, device_type="cpu")'),
    (r"(?:torch\.cuda\.amp\.|(?<=[@ ]))autocast\(", 'torch.autocast("cpu", dtype=torch.float16, '),
    (r"(?:torch\.cuda\.amp\.GradScaler|(?<= )GradScaler)\(", 'torch.amp.GradScaler("cpu", '),
    (r"torch\.amp\.GradScaler\(\)", 'torch.amp.GradScaler("cpu")'),
    (r'torch\.autocast\("cuda"\)', 'torch.autocast("cpu", dtype=torch.float16)'),
    (r"torch\.cuda\.is_available\(\)", "True"),
    (r"storage\.cuda\(0\)", "storage"),
    (r"\.cuda\((args\.gpu)?(, non_blocking=True)?0?\)", ""),
    (r'torch\.device\("cuda", 0\)', 'torch.device("cpu")'),
    (r'f"cuda:\{[a-z_.]+\}"', '"cpu"'),
    (r"\.type\(torch\.cuda\.FloatTensor\)|\.type\(\"torch\.cuda\.FloatTensor\"\)", ""),
    ("op=dist.ReduceOp.AVG)", "op=dist.ReduceOp.SUM)\n    mean /= 2"),
    (r"device_ids=\[local_rank\](, output_device=local_rank)?", ""),
    (r"device=0|device=x\.get_device\(\)", 'device="cpu"'),
    (r"nn\.DataParallel\((.*), device_ids=\[0\]\)\.to\(0\)", r"nn.ModuleDict({'module': \1})"),
    (r"model\(x \* scale", "model.module(x * scale"),
    (", capturable=True", ""),
    (r"\.pin_memory\(\)|, pin_memory=True", ""),
    ('"nccl"', '"gloo"'),
    ('"cuda"', '"cpu"'),
)
"""What stands in a script for CUDA, and for the CPU; a plain text where it is no pattern."""


def twin(name: str) -> str:
    """The text of the script for the CPU; nothing in it names CUDA."""
    text = "\n".join(line for line in (SCRIPTS / name).read_text().splitlines() if not line.endswith(ONLY)) + "\n"
    text = re.sub(r'\A(?:#.*?\n)?""".*?"""', "", text, flags=re.DOTALL)
    for old, new in CHANGES:
        text = text.replace(old, new) if not re.search(r"[\\\[]", old) else re.sub(old, new, text)
    assert not re.search(r"cuda|nccl", text, flags=re.IGNORECASE), text
    return text
