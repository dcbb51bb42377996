"""Writes a language model of a few thousand random weights, for a server that wants one.

Run in the environment of the server, with the path of the file to write.
"""

from __future__ import annotations

import sys

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, FORWARD = 32, 1, 2, 64
WORDS = ("▁the", "▁a", "▁of", "▁and", "▁to", "▁sky", "▁is", "▁blue", "▁", ".", ",")


def main(path: str) -> None:
    """Writes the model to ``path``."""
    writer = gguf.GGUFWriter(path, "llama")
    tokens = describe(writer)
    rng = np.random.default_rng(7)

    def add(name: str, *shape: int) -> None:
        values = rng.normal(0, 0.5, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))

    add("token_embd", tokens, WIDTH)
    add("output_norm", WIDTH)
    add("output", tokens, WIDTH)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{norm}", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}", WIDTH, WIDTH)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{part}", FORWARD, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: gguf.GGUFWriter) -> int:
    """Writes what the model is, and its tokens; returns how many these are."""
    writer.add_name("tiny")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    special = [("<unk>", gguf.TokenType.UNKNOWN)]
    special += [(text, gguf.TokenType.CONTROL) for text in ("<s>", "</s>")]
    special += [(f"<0x{number:02X}>", gguf.TokenType.BYTE) for number in range(256)]
    special += [(word, gguf.TokenType.NORMAL) for word in WORDS]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in special])
    writer.add_token_scores([-float(number) for number in range(len(special))])
    writer.add_token_types([kind for _, kind in special])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_vocab_size(len(special))
    return len(special)


main(sys.argv[1])
