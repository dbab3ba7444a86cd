import torch
from torch import nn


class ComplexLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        w = torch.randn(n_out, n_in, 2) / n_in
        self.w = nn.Parameter(torch.view_as_complex(w))  # <-- FAULT

    def forward(self, z):
        y = z @ self.w.t()
        return y.real.square() + y.imag.square()
