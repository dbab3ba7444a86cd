import contextlib
import time

import torch


class Packed:
    def __init__(self, vocab, per_window):
        self.vocab, self.per_window = vocab, per_window
        self.produced = 0

    def windows(self, n):
        for _ in range(n):
            w = []
            for _ in range(self.per_window):
                length = int(torch.randint(6, 15, ()))
                w.append(torch.randint(0, self.vocab, (length,)))
                self.produced += length
            yield w


class RateLogger:
    def __init__(self):
        self.tokens = 0
        self.elapsed = 0.0

    @contextlib.contextmanager
    def timed(self, window):
        t = time.perf_counter()
        yield
        self.elapsed += time.perf_counter() - t
        self.tokens += sum(map(len, window))

    def rate(self):
        return self.tokens / self.elapsed
