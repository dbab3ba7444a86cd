import torch
from torch import nn


class ComplexLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        w = torch.randn(n_out, n_in, 2) / n_in
        self.w = nn.Parameter(w)

    def forward(self, z):
        y = z @ torch.view_as_complex(self.w).t()
        return y.real.square() + y.imag.square()
