"""The tables of a rotation, by the fastest code that is there."""

import torch
from torch import Tensor

from ropewalk.functional.rotary import cos_sin
from ropewalk.kernels import cpu


def tables(positions: Tensor, inv_freq: Tensor, attention_factor: float) -> tuple[Tensor, Tensor]:
    """`functional.cos_sin`, to the last bit of float32 but for one table entry in millions, which is a bit off."""
    if _kernel_takes(positions, inv_freq):
        return torch.ops.ropewalk.tables.default(positions, inv_freq, attention_factor)
    return cos_sin(positions, inv_freq, attention_factor)


def _kernel_takes(positions: Tensor, inv_freq: Tensor) -> bool:
    """int64 positions and one row of float64 frequencies, in plain tensors outside of every transform."""
    return (
        cpu.missing is None
        and type(positions) is Tensor
        and type(inv_freq) is Tensor
        and positions.dtype == torch.int64
        and 0 < positions.dim() <= 7
        and inv_freq.numel() > 0
        and inv_freq.dtype == torch.float64
        and inv_freq.dim() == 1
        and positions.device.type == inv_freq.device.type == "cpu"
        and positions.is_contiguous()
        and inv_freq.is_contiguous()
        and not inv_freq.requires_grad
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )
