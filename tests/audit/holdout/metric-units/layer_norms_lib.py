import json

import torch


class JsonLogger:
    def __init__(self, path):
        self.f = open(path, "w")  # noqa: SIM115

    def write(self, **row):
        self.f.write(json.dumps(row) + "\n")

    def close(self):
        self.f.close()


@torch.no_grad()
def grad_stats(model):
    per_layer = {}
    total = 0.0
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        sq = p.grad.float().square().sum().item()  # <-- FAULT
        layer = name.split(".")[0]
        per_layer[layer] = per_layer.get(layer, 0.0) + sq
        total += sq
    out = {f"grad_norm/{k}": v**0.5 for k, v in per_layer.items()}
    out["grad_norm"] = total**0.5
    return out
