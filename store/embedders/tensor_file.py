"""
A safetensors file: the length of a JSON header, the header that says where each tensor lies, the
bytes.

Format: https://huggingface.co/docs/safetensors. Nothing is copied: a tensor views the mapped file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from store.home.errors import EmbedderError

_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "<i1"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies; `start` counts bytes from the file's beginning."""

    dtype: str  # as the format names it: F32, F16, BF16, I64 ...
    shape: tuple[int, ...]
    start: int
    length: int


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def header(path: Path) -> Mapping[str, Tensor]:
    """Return every tensor of the file by name; raise EmbedderError where it is no such file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST_HEADER:
                raise EmbedderError(f"{path} is no safetensors file")
            found = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
            found.pop("__metadata__", None)
            entries = {name: msgspec.json.decode(one, type=_Entry) for name, one in found.items()}
            size = file.seek(0, 2)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{path} cannot be read as safetensors ({error})") from error
    tensors = {
        name: Tensor(
            one.dtype,
            one.shape,
            8 + length + one.data_offsets[0],
            one.data_offsets[1] - one.data_offsets[0],
        )
        for name, one in entries.items()
    }
    if any(one.length < 0 or one.start + one.length > size for one in tensors.values()):
        raise EmbedderError(f"{path} ends before its tensors do: fetch it again")
    return tensors


def mapped(path: Path, tensor: Tensor) -> npt.NDArray[np.generic]:
    """Return a tensor as a view of the mapped file; raise EmbedderError for a type numpy lacks."""
    if tensor.dtype not in _DTYPES:
        raise EmbedderError(f"{path} holds {tensor.dtype}: save it as F32 or F16")
    dtype = np.dtype(_DTYPES[tensor.dtype])
    if tensor.length != dtype.itemsize * int(np.prod(tensor.shape)):
        raise EmbedderError(f"{path}: a tensor's bytes do not fit its shape: fetch it again")
    return np.memmap(path, dtype, "r", tensor.start, tensor.shape)
