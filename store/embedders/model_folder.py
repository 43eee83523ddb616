"""A model's folder: its place, its tokenizer, its digest and its safetensors files."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.home.errors import EmbedderError

_SAMPLES, _SAMPLE = 256, 4_096  # blocks and their bytes: 1 MiB of a file of any size


def find_folder(named: str, files: Sequence[str]) -> Path:
    """Return the folder a setting names: a path with a / in it, or a package that ships a model.

    For a package, the first folder with one of `files`, at most one level down.
    The package is looked for and never imported: its own code may load far more than its weights.
    """
    path = Path(named).expanduser()
    if path.is_dir() and path.name != named:
        return path
    for home in _package(named):
        for place in (home, *sorted(other for other in home.iterdir() if other.is_dir())):
            if any((place / file).is_file() for file in files):
                return place
    raise EmbedderError(
        f"{named!r} is neither a folder nor an installed package that ships a model: "
        "name one, or install it into mnemolog's own environment"
    )


def _package(named: str) -> list[Path]:
    if not named.isidentifier():
        return []
    # the working directory is the user's, not a source of our models
    spec = PathFinder.find_spec(named, [place for place in sys.path if place])
    places = spec.submodule_search_locations if spec else None
    return [path for place in places or () if (path := Path(place)).is_dir()]


def model_name(named: str) -> str:
    """Return the last part of a setting's path, for a model's id."""
    return Path(named).expanduser().absolute().name


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a file, without the padding it may bake in."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderError("tokenizers is missing: pip install 'mnemolog-core[onnx]'") from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise EmbedderError(f"{path} is missing or no tokenizer: {error}") from error
    tokenizer.no_padding()
    return tokenizer


def read_settings(path: Path, kind: type[Any]) -> Any:
    """Return a settings file of the model, or the defaults if there is none."""
    if not path.is_file():
        return kind()
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error


def vocabulary(tokenizer: Any) -> Iterator[str]:
    """Yield the pieces of a tokenizer's vocabulary as text; those of bytes are joined again."""
    pieces = tokenizer.get_vocab(with_added_tokens=False)
    if type(tokenizer.decoder).__name__ == "ByteLevel":
        return (tokenizer.decoder.decode([piece]).strip("\ufffd ") for piece in pieces)
    return iter(pieces)


def folder_digest(weights: Path, small: Sequence[Path]) -> str:
    """Return eight hex digits of the weights' size and 256 blocks of them, and of small files.

    A model of 90 MB is known in a millisecond; training on changes every block.
    """
    total = blake2b(digest_size=4)
    try:
        with weights.open("rb") as file:
            size = file.seek(0, 2)
            total.update(f"{size}/".encode())
            for number in range(_SAMPLES):
                file.seek(number * max(_SAMPLE, size - _SAMPLE) // _SAMPLES)
                total.update(file.read(_SAMPLE))
        for path in small:
            data = path.read_bytes() if path.is_file() else b""
            total.update(f"{path.name}/{len(data)}/".encode() + data)
    except OSError as error:
        raise EmbedderError(f"{weights} cannot be read ({error.strerror})") from error
    return total.hexdigest()


# A safetensors file: the length of a JSON header, the header with the place of each tensor, the
# bytes. Nothing is copied: a tensor views the mapped file.
#
# Format: https://huggingface.co/docs/safetensors.

_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "<i1"}


class Tensor(msgspec.Struct, frozen=True):
    """The place of one tensor; `start` counts bytes from the file's beginning."""

    dtype: str  # as the format names it: F32, F16, BF16, I64 ...
    shape: tuple[int, ...]
    start: int
    length: int


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def tensor_header(path: Path) -> Mapping[str, Tensor]:
    """Return every tensor of the file by name; raise EmbedderError for another kind of file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST_HEADER:
                raise EmbedderError(f"{path} is no safetensors file")
            raw = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
            raw.pop("__metadata__", None)
            entries = {name: msgspec.json.decode(data, type=_Entry) for name, data in raw.items()}
            size = file.seek(0, 2)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{path} cannot be read as safetensors ({error})") from error
    tensors = {
        name: Tensor(
            entry.dtype,
            entry.shape,
            8 + length + entry.data_offsets[0],
            entry.data_offsets[1] - entry.data_offsets[0],
        )
        for name, entry in entries.items()
    }
    if any(tensor.length < 0 or tensor.start + tensor.length > size for tensor in tensors.values()):
        raise EmbedderError(f"{path} ends before its tensors do: fetch it again")
    return tensors


def map_tensor(path: Path, tensor: Tensor) -> npt.NDArray[np.generic]:
    """Return a tensor as a view of the mapped file; raise EmbedderError for a type numpy lacks."""
    if tensor.dtype not in _DTYPES:
        raise EmbedderError(f"{path} holds {tensor.dtype}: save it as F32 or F16")
    dtype = np.dtype(_DTYPES[tensor.dtype])
    if tensor.length != dtype.itemsize * int(np.prod(tensor.shape)):
        raise EmbedderError(f"{path}: a tensor's bytes do not fit its shape: fetch it again")
    return np.memmap(path, dtype, "r", tensor.start, tensor.shape)
