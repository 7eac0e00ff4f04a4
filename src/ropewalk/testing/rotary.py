"""Two independent statements of rotary: complex multiplication, and the explicit matrix."""

import torch
from torch import Tensor


def rotate_complex(x: Tensor, angles: Tensor, *, layout: str = "half") -> Tensor:
    """Rotate by multiplying with exp(i angle) in complex128.

    Args:
        x: [..., T, D]; the first 2P features rotate.
        angles: float64 [T, P], or any shape that broadcasts against [..., T, P].
        layout: "half" or "interleaved".

    Returns:
        float64, shaped like `x`.

    Source: Su et al. 2021 (arXiv 2104.09864), equation 12.
    """
    pairs, x = angles.shape[-1], x.double()
    if layout == "half":
        first, second = x[..., :pairs], x[..., pairs : 2 * pairs]
    else:
        first, second = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    out = x.clone()
    if layout == "half":
        out[..., :pairs], out[..., pairs : 2 * pairs] = turned.real, turned.imag
    else:
        out[..., 0 : 2 * pairs : 2], out[..., 1 : 2 * pairs : 2] = turned.real, turned.imag
    return out


def rotation_matrix(angles: Tensor, head_dim: int, *, layout: str = "half") -> Tensor:
    """The block matrix R with R x the rotated vector, for one position.

    Args:
        angles: float64 [P].
        head_dim: D, at least 2P; features past 2P stay.
        layout: "half" or "interleaved".

    Returns:
        float64 [D, D].

    Source: Su et al. 2021, equation 15.
    """
    matrix = torch.eye(head_dim, dtype=torch.float64)
    for pair, angle in enumerate(angles.tolist()):
        a, b = (pair, pair + len(angles)) if layout == "half" else (2 * pair, 2 * pair + 1)
        cos, sin = torch.tensor(angle, dtype=torch.float64).cos(), torch.tensor(angle, dtype=torch.float64).sin()
        matrix[a, a], matrix[a, b], matrix[b, a], matrix[b, b] = cos, -sin, sin, cos
    return matrix
