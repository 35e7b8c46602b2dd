"""Writes the model of these tests: a transformer with random weights, as a GGUF file.

    python make_model.py FILE

Runs in the environment that `install` makes. The weights come from a fixed seed, so that the file
is the same everywhere; another sha256 is an error. Its vocabulary is bytes and printable ASCII.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: T201  a script

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import gguf
import numpy as np

SHA256 = "6d708506cd1e8bd4735b3a95e9e9db70538aa2424636ca8c717b6ac145155ff0"
WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 512
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def vocabulary() -> tuple[list[bytes], list[float], list[int]]:
    """The tokens, with scores and kinds."""
    kinds = gguf.TokenType
    rows = [(b"<unk>", 0.0, kinds.UNKNOWN), (b"<s>", 0.0, kinds.CONTROL)]
    rows += [(b"</s>", 0.0, kinds.CONTROL)]
    rows += [(f"<0x{byte:02X}>".encode(), 0.0, kinds.BYTE) for byte in range(256)]
    printable = ("\u2581" if code == 32 else chr(code) for code in range(32, 127))
    rows += [(text.encode(), -float(n), kinds.NORMAL) for n, text in enumerate(printable)]
    tokens, scores, types = zip(*rows, strict=True)
    return [*tokens], [*scores], [int(kind) for kind in types]


def write(path: Path) -> None:
    """Write the file."""
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    tokens, scores, types = vocabulary()
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    def weights(name: str, *shape: int, scale: float = 0.3) -> None:
        found = random.integers(-1000, 1001, shape)  # whole numbers are the same on every machine
        writer.add_tensor(f"{name}.weight", (found * (scale / 500)).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    weights("token_embd", len(tokens), WIDTH, scale=1.0)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm")
        ones(f"{block}.ffn_norm")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}.{part}", WIDTH, WIDTH)
        weights(f"{block}.ffn_gate", INNER, WIDTH)
        weights(f"{block}.ffn_up", INNER, WIDTH)
        weights(f"{block}.ffn_down", WIDTH, INNER)
    ones("output_norm")
    weights("output", len(tokens), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(path: Path) -> None:
    """Write the file where it is not there, and check it."""
    if not path.exists():
        write(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"{path} has the sha256 {found}, not {SHA256}: delete it, and make it again")
    print(f"{path}: {path.stat().st_size:,} bytes, sha256 {found[:12]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
