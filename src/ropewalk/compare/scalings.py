"""What each context-extension method makes of the rotary model that was trained: no further training."""

from typing import Any

from torch import Tensor

from ropewalk.compare.protocol import Protocol
from ropewalk.compare.scoring import as_language_model, bits, copy_accuracy, edges, last_quarter, prime_below, stretches
from ropewalk.compare.training import VOCAB
from ropewalk.extend.methods import scaling_for
from ropewalk.measure.curves import crop_curve, full_curve
from ropewalk.models import Decoder
from ropewalk.modules import Rotary
from ropewalk.scaling import Scaling

FACTORS = (2, 4, 8, 32)
METHODS = ("linear", "ntk", "ntk-critical", "dynamic", "yarn", "llama3", "mrrope")


def score_scalings(model: Decoder, protocol: Protocol, held_out: Tensor) -> list[dict[str, Any]]:
    """Every method at every factor, beside the model as it is and beside crop."""
    return [_at(model, protocol, held_out, factor) for factor in FACTORS if len(held_out) >= factor * protocol.length]


def _at(model: Decoder, protocol: Protocol, held_out: Tensor, factor: int) -> dict[str, Any]:
    length = factor * protocol.length
    documents, borders = stretches(protocol, held_out, length), edges(protocol, length)
    scalings = {"none": None, **{name: scaling_for(name, factor, protocol.length) for name in METHODS}}
    found = []
    for name, scaling in scalings.items():
        scaled = rescaled(model, protocol, scaling)
        # one pass a method: a length-dependent one has the frequencies of the whole stretch in it
        curve = full_curve(as_language_model(scaled), documents, borders)
        found.append({
            "method": name, "last_quarter": last_quarter(curve, length), "within": bits(curve, 1, protocol.length),
            "copy": copy_accuracy(scaled, protocol, prime_below(length // 2), held_out),
        })  # fmt: skip
    crop, _ = crop_curve(as_language_model(model), documents, borders, protocol.length)
    within = next(one["within"] for one in found if one["method"] == "none")
    found.insert(1, {"method": "crop", "last_quarter": last_quarter(crop, length), "within": within, "copy": None})
    return {"factor": factor, "length": length, "methods": found}


def rescaled(model: Decoder, protocol: Protocol, scaling: Scaling | None) -> Decoder:
    """The same weights under other frequencies."""
    rotary = Rotary(protocol.head_dim, scaling=scaling)
    new = Decoder(VOCAB, protocol.dim, layers=protocol.layers, heads=protocol.heads, encoding=rotary)
    new.load_state_dict(model.state_dict())
    return new.eval()
