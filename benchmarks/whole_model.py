"""What the kernel does for a whole model: SmolLM2-135M's prefill and decoding before and after `rw.patch`.

Writes benchmarks/results/whole-model-smollm2-135m.json. Usage: python benchmarks/whole_model.py SMOLLM2.gguf
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.models.llama import modeling_llama

import ropewalk as rw
from ropewalk.bench.clock import warm_allocator
from ropewalk.bench.run import machine

RESULT = Path(__file__).parent / "results/whole-model-smollm2-135m.json"
PROMPT, STEPS, ROUNDS = 1024, 16, 11


def main() -> None:
    """Take turns: their rotation, ours; prefill of the prompt, then a few tokens one by one."""
    torch.set_num_threads(2)
    warm_allocator()
    path = Path(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    tokens = torch.randint(0, model.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    turns: dict[str, list[tuple[float, float]]] = {"transformers": [], "patched": []}
    with torch.inference_mode():
        theirs = model(tokens, use_cache=False).logits
        with rw.patch(model):
            difference = float((model(tokens, use_cache=False).logits - theirs).abs().max())
        for _ in range(ROUNDS):
            turns["transformers"].append(turn(model, tokens))
            with rw.patch(model):
                turns["patched"].append(turn(model, tokens))
        shares = [rotation_seconds(model, length) for length in (PROMPT, 1)]
    result = {
        **machine(2), "model": "SmolLM2-135M, float32", "prompt": PROMPT, "steps": STEPS, "rounds": ROUNDS,
        "largest_difference_of_logits": difference,
        **{name: describe(measured) for name, measured in turns.items()},
    }  # fmt: skip
    prefill, step = (statistics.median(times) for times in zip(*turns["transformers"], strict=True))
    result["share_of_the_rotation"] = {"prefill": shares[0] / prefill, "decode": shares[1] / step}
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def turn(model: torch.nn.Module, tokens: torch.Tensor) -> tuple[float, float]:
    """Seconds of the prefill, and of a step of decoding behind it."""
    cache = DynamicCache(config=model.config)
    prefill = seconds(lambda: model(tokens, past_key_values=cache, logits_to_keep=1))
    step = seconds(lambda: [model(tokens[:, :1], past_key_values=cache) for _ in range(STEPS)]) / STEPS
    return prefill, step


def rotation_seconds(model: torch.nn.Module, length: int) -> float:
    """What all layers spend in transformers' apply_rotary_pos_emb."""
    config, width = model.config, model.config.hidden_size // model.config.num_attention_heads
    q = torch.randn(1, length, config.num_attention_heads, width).transpose(1, 2)
    k = torch.randn(1, length, config.num_key_value_heads, width).transpose(1, 2)
    cos, sin = model.model.rotary_emb(q, torch.arange(length)[None])
    calls = 20 if length > 1 else 500
    times = [
        seconds(lambda: [modeling_llama.apply_rotary_pos_emb(q, k, cos, sin) for _ in range(calls)]) for _ in range(7)
    ]
    return statistics.median(times) / calls * config.num_hidden_layers


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def describe(measured: list[tuple[float, float]]) -> dict[str, float]:
    """Tokens a second, of the median turn."""
    prefill, step = (statistics.median(times) for times in zip(*measured, strict=True))
    return {"prefill_tokens_per_second": round(PROMPT / prefill, 1), "decode_tokens_per_second": round(1 / step, 2)}


if __name__ == "__main__":
    main()
