"""transformers' Llama past its native length: dynamic NTK, with a cache, right at every token.

Run: python examples/llama_past_its_length.py
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import ropewalk as rw

torch.manual_seed(0)
NATIVE = 32
sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
sizes |= {"num_attention_heads": 4, "max_position_embeddings": NATIVE, "initializer_range": 0.2}
model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()  # yours: LlamaForCausalLM.from_pretrained(...)
prompt = torch.randint(3, 128, (1, 28))


def text(model, cached):
    ones = torch.ones_like(prompt)
    return model.generate(prompt, attention_mask=ones, max_new_tokens=20, pad_token_id=0, use_cache=cached)


# transformers' own: what the cache holds was made by the frequencies of shorter texts.
dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
theirs = LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=dynamic)).eval()
theirs.load_state_dict(model.state_dict())
print(f"transformers: with a cache as without: {torch.equal(text(theirs, True), text(theirs, False))}")

# Ours: the output depends on the tokens alone.
patched = rw.patch(model, scaling=rw.DynamicNTK(factor=2.0, original_length=NATIVE))
print(f"ropewalk: with a cache as without: {torch.equal(text(model, True), text(model, False))}")
print(f"and as transformers without one: {torch.equal(text(model, True), text(theirs, False))}")
patched.undo()

# The same model without a rotation, its order in a bias.
with rw.patch(model, encoding=rw.ALiBi(heads=4)):
    print(f"with ALiBi: {text(model, True).shape[1]} tokens of {NATIVE} native")
