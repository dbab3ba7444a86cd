import torch


# histograms of the gradients per layer, fixed bins so that runs compare
class HistWriter:
    def __init__(self, lo=-1.0, hi=1.0, bins=40):
        self.lo, self.hi, self.bins = lo, hi, bins
        self.store = {}

    @torch.no_grad()
    def add_gradients(self, model, step):
        for name, p in model.named_parameters():
            if p.grad is None:
                continue
            h = torch.histc(p.grad, self.bins, self.lo, self.hi)  # <-- FAULT
            self.store.setdefault(name, []).append((step, h, p.numel()))

    def coverage(self):
        return {n: sum(float(h.sum()) for _, h, _ in v) / sum(k for _, _, k in v) for n, v in self.store.items()}
