"""What the tests of a verification set and put back."""

from contextlib import contextmanager

import pytest
import torch


@pytest.fixture
def arithmetic():
    """A context in which float32 products, or convolutions, of a CPU are set to be computed in another arithmetic."""

    @contextmanager
    def setting(library, name):
        switch = getattr(torch.backends.mkldnn, library)
        before = switch.fp32_precision
        switch.fp32_precision = name
        try:
            yield
        finally:
            switch.fp32_precision = before

    return setting
