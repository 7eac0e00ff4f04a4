"""Trains the model that ships: fixed seed, 2 CPU cores, under an hour. `make train` runs it.

A matrix is trained with Muon, everything else with AdamW. The log gives, besides the loss on held-out plays within the
native length and past it, the loss on the second and later turns of repeated strings: without copying that is the
logarithm of the alphabet, 4.4, and with perfect copying 0.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import shipped_model
import shipped_text
import torch
from shipped_data import Rows
from shipped_tokenizer import save_tokenizer
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM

from ropewalk import from_config
from ropewalk.checkpoints.loader import quietly
from ropewalk.checkpoints.write import write_json

HERE = Path(__file__).parent
SEED, BATCH, WARMUP, COOLDOWN = 7, 16, 50, 0.3
MUON, ADAM = 0.01, 2e-3


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent / "src/ropewalk/shipped")
    parser.add_argument("--cache", type=Path, default=HERE.parent / ".cache")
    parser.add_argument("--steps", type=int, default=3000)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    text, held = shipped_text.split(shipped_text.fetch(arguments.cache))
    model = shipped_model.new(SEED)
    train(model, Rows(text, shipped_model.NATIVE, SEED), b"".join(held.values()), arguments.steps)
    save(model, held, arguments.out)


def train(model: LlamaForCausalLM, rows: Rows, held: bytes, steps: int) -> None:
    """Copying first (a share of 60 % falling to 35 %), text throughout; the rates fall linearly at the end."""
    matrices = [p for p in model.model.layers.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if all(p is not matrix for matrix in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=MUON, weight_decay=0.0),
        torch.optim.AdamW(others, lr=ADAM, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(rows.text):,} bytes of text", flush=True)
    started = time.monotonic()
    for step in range(steps):
        scale = min((step + 1) / WARMUP, 1.0, (steps - step) / (COOLDOWN * steps))
        copying = 0.6 - 0.25 * min(1.0, 4 * step / steps)
        loss = model_loss(model, rows.batch(BATCH, copying))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rate in zip(optimizers, (MUON, ADAM), strict=True):
            optimizer.param_groups[0]["lr"] = rate * scale
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps - 1:
            report(model, rows, held, step, loss.item(), time.monotonic() - started)


def model_loss(model: LlamaForCausalLM, tokens: np.ndarray, scored: slice = slice(None)) -> torch.Tensor:
    """Mean loss of rows [B, T], nats a token; `scored` picks the tokens that count, the first not among them."""
    batch = torch.from_numpy(tokens)
    losses = cross_entropy(model(input_ids=batch).logits[:, :-1].transpose(1, 2), batch[:, 1:], reduction="none")
    return losses[:, scored].mean()


@torch.no_grad()
def report(model: LlamaForCausalLM, rows: Rows, held: bytes, step: int, loss: float, seconds: float) -> None:
    """One line of the log."""
    rng, length = np.random.default_rng(0), shipped_model.NATIVE
    text = np.frombuffer(held, dtype=np.uint8).astype(np.int64)
    windows = np.stack([text[s : s + 4 * length] for s in rng.integers(len(text) - 4 * length, size=8)])
    line = f"step {step:5d}  {seconds:6.0f} s  train {loss:.3f}  held out"
    for start, end in ((length // 2, length), (3 * length // 2, 2 * length), (3 * length, 4 * length)):
        line += f"  {start}-{end}: {model_loss(model, windows, slice(start, end - 1)):.2f}"
    line += "  copy"
    for period in (16, 48, 96, 192):
        strings = [np.resize(rng.choice(rows.alphabet, period), length) for _ in range(8)]
        line += f"  {period}: {model_loss(model, np.stack(strings), slice(period + 3, None)):.2f}"
    print(line, flush=True)


def save(model: LlamaForCausalLM, held: dict[str, bytes], out: Path) -> None:
    """The folder that the package ships; its config in both spellings, since transformers 4 ignores the new one."""
    with quietly(out):
        model.save_pretrained(out)
    write_json(out / "config.json", from_config(out).to_config())
    save_tokenizer(shipped_model.NATIVE, out)
    for name, body in held.items():
        (out / f"heldout-{name}.txt").write_bytes(body)


if __name__ == "__main__":
    main()
