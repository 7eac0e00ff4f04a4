"""One of two processes that hold a Decoder in shards; here and not in a test, so that the process can import it."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from every_encoding import built, decoder, tokens
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ropewalk.attention import blocks

WORLD = 2
Results = dict[str, dict[str, torch.Tensor]]


def loss(logits: torch.Tensor) -> torch.Tensor:
    return logits.square().mean()


def work(rank: int, folder: str, names: list[str]) -> None:
    """Writes this rank's logits of its half of the batch, and the gradients of all, to a file in `folder`.

    Each by blocks of 64 and of 3 queries.
    """
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    mesh, results = init_device_mesh("cpu", (WORLD,)), {}
    cases = [(name, rows) for name in names for rows in (64, 3)]
    for name, rows in cases:
        blocks.LOGITS, blocks.LEAST_ROWS = 1, rows
        model = decoder(built(name))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        logits = model(tokens(2 * WORLD, 12)[2 * rank : 2 * rank + 2])
        loss(logits).backward()
        gradients = {key: parameter.grad.full_tensor() for key, parameter in model.named_parameters()}
        results[f"{name} by {rows}"] = {"logits": logits.detach(), **gradients}
        local = {key: parameter.to_local().shape[0] for key, parameter in model.named_parameters()}
        whole = {key: parameter.shape[0] for key, parameter in model.named_parameters()}
        assert all(local[key] < whole[key] or whole[key] == 1 for key in whole), (
            "each process holds a part of every parameter"
        )
    torch.save(results, Path(folder) / f"rank{rank}.pt")
    dist.destroy_process_group()
