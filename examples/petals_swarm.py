"""A private Petals swarm on 127.0.0.1: a tiny random Llama, a server for its blocks, and a client that
generates through it.

    python examples/petals_swarm.py model FOLDER                  # make the model; its tokens on the CPU
    samedevice run --machine 1x24GB examples/petals_swarm.py serve FOLDER [--cache cpu] [--guard move] python
    examples/petals_swarm.py ask FOLDER ADDRESS            # the tokens by way of the swarm; the server
    printed its address samedevice run --machine 1x24GB examples/petals_swarm.py measure FOLDER     # the
    throughput test that a server begins with

It wants petals 2.2.0.post1 and its old companions: `python -m evidence petals-proof` builds them beside the
installed packages and runs all of this.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys

import torch

PROMPT, NEW_TOKENS = [[1, 5, 9, 13]], 8
PREFIX = "tiny"


def fit_petals_to_new_torch():
    """What petals' old companions miss in a new torch, and one library that looks for CUDA's own files."""
    import torch.amp.grad_scaler
    import torch.cuda.amp.grad_scaler

    # hivemind imports this private function from where torch had it before 2.3.
    torch.cuda.amp.grad_scaler._refresh_per_optimizer_state = (
        torch.amp.grad_scaler._refresh_per_optimizer_state
    )
    # bitsandbytes loads its CUDA library when it sees a GPU. Petals imports it for adapters; nothing here is
    # quantized.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import bitsandbytes  # noqa: F401  # imported for its choice of a library

    if visible is None:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible


def make_model(folder):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder, safe_serialization=True)
    return model.generate(torch.tensor(PROMPT), max_new_tokens=NEW_TOKENS, do_sample=False)


def ask(folder, address):
    fit_petals_to_new_torch()
    from petals import AutoDistributedModelForCausalLM

    model = AutoDistributedModelForCausalLM.from_pretrained(
        folder,
        initial_peers=[address],
        dht_prefix=PREFIX,
        torch_dtype=torch.float32,
        max_retries=1,
        request_timeout=60,
    )
    try:
        return model.generate(torch.tensor(PROMPT), max_new_tokens=NEW_TOKENS, do_sample=False)
    finally:
        manager = model.model.layers.sequence_manager
        manager.shutdown()
        manager.dht.shutdown()


def serve(folder, cache, guard):
    fit_petals_to_new_torch()
    import petals.cli.run_server
    import petals.server.server

    import samedevice as sd

    handles = []

    class Backend(petals.server.server.TransformerBackend):
        """Petals' own backend of one block, with the fault or the guard that was asked for."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            if guard:
                handles.append(sd.guard_cache(self.module, on_parted=guard))

        def get_inference_cache_descriptors(self, batch_size, max_length):
            descriptors = super().get_inference_cache_descriptors(batch_size, max_length)
            if cache is None:
                return descriptors
            return [dataclasses.replace(descriptor, device=torch.device(cache)) for descriptor in descriptors]

    def unguard(number, frame):
        for handle in handles:
            print("guard removed:", handle.block, handle.moves, flush=True)
            handle.remove()

    signal.signal(signal.SIGUSR1, unguard)
    petals.server.server.TransformerBackend = Backend
    petals.cli.run_server.validate_version = lambda: None  # it asks PyPI for a newer one
    options = (
        "--new_swarm --num_blocks 4 --num_handlers 1 --attn_cache_tokens 512 --throughput 1 --torch_dtype "
        "float32 --quant_type none"
    )
    options += f" --dht_prefix {PREFIX} --host_maddrs /ip4/127.0.0.1/tcp/0"
    sys.argv = ["run_server", folder, "--device", "cuda", *options.split()]
    petals.cli.run_server.main()


def measure(folder):
    fit_petals_to_new_torch()
    from petals.server.throughput import measure_compute_rps
    from petals.utils.auto_config import AutoDistributedConfig
    from petals.utils.convert_block import QuantType

    config = AutoDistributedConfig.from_pretrained(folder, dht_prefix=PREFIX)
    options = {
        "quant_type": QuantType.NONE,
        "tensor_parallel_devices": (),
        "n_tokens": 1,
        "n_steps": 4,
        "inference": True,
    }
    measure_compute_rps(config, torch.device("cuda:0"), torch.float32, **options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    roles = parser.add_subparsers(dest="role", required=True)
    for role in ("model", "measure"):
        roles.add_parser(role).add_argument("folder")
    client = roles.add_parser("ask")
    client.add_argument("folder")
    client.add_argument("address")
    server = roles.add_parser("serve")
    server.add_argument("folder")
    server.add_argument(
        "--cache",
        metavar="DEVICE",
        help="the fault: caches are allocated there, whatever the block's device is",
    )
    server.add_argument(
        "--guard", choices=("move", "raise"), help="what sd.guard_cache does with a cache that left its block"
    )
    arguments = vars(parser.parse_args())
    role = {"model": make_model, "ask": ask, "serve": serve, "measure": measure}[arguments.pop("role")]
    tokens = role(**arguments)
    if tokens is not None:
        print(json.dumps(tokens[0].tolist()), flush=True)
    if arguments.get("address"):
        os._exit(0)  # threads of a client's peer-to-peer layer keep the interpreter from ending now and then


if __name__ == "__main__":
    main()
