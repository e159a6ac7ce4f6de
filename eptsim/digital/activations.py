"""The gated activation of the feed-forward sublayer."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import silu


def silu_gate(a: Tensor, b: Tensor) -> Tensor:
    """``SiLU(a) * b``, elementwise; shapes (..., h_ff).

    References
    ----------
    Shazeer, "GLU variants improve transformer", arXiv:2002.05202, Eq. 6 (SwiGLU).
    """
    return silu(a) * b
