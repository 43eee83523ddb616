"""
Remote: a place for files elsewhere, a folder (on another disk, or one that another program syncs)
or a bucket that speaks S3. It has only four calls: list, get, put and delete.

A bucket's credentials, region and endpoint come from the environment or `~/.aws`, as for all of
Amazon's programs: none of them is a setting of ours.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from store.home.errors import ConfigError, RemoteError
from store.home.files import has_passing_name, is_old, remove_files, replace_file
from store.home.packages import require

_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/?(.*)")
_SCHEME = re.compile(r"[a-z0-9+]+://", re.IGNORECASE)
_MOST_DELETED = 1_000  # names in one request
_CONNECT_S, _READ_S, _ATTEMPTS = 5.0, 30.0, 3


class Entry(NamedTuple):
    """A file at a remote, by its name from the remote's root, and its size in bytes."""

    name: str
    bytes: int


class Remote(Protocol):
    """A place for files. Every call raises RemoteError if the place does not answer."""

    @property
    def url(self) -> str:
        """The place's name, as in the settings."""

    def list(self, folder: str) -> list[Entry]:
        """Return the files below a folder, by name; none if there is no such folder."""

    def get(self, name: str) -> bytes:
        """Return a file's bytes; raise RemoteError also if there is no such file."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; it is safe there when this returns."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are no error."""


def check_url(url: str) -> None:
    """Raise ValueError if a URL names no place that we can write to."""
    if url.startswith("s3://"):
        if not _BUCKET.fullmatch(url):
            raise ValueError(f"{url!r} names no bucket: write s3://BUCKET/FOLDER")
    elif _SCHEME.match(url):
        raise ValueError(
            f"{url!r} is no place we can write to: give a folder or s3://BUCKET/FOLDER"
        )
    elif not Path(url).expanduser().is_absolute():
        raise ValueError(f"{url!r} is not absolute: give the whole path of the folder")


def is_folder(url: str) -> bool:
    return _SCHEME.match(url) is None


def open_remote(url: str) -> Remote:
    """Return the place with a URL or the path of a folder, without contacting it.

    Raise ConfigError for an invalid URL.
    """
    try:
        check_url(url)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if named := _BUCKET.fullmatch(url):
        return _Bucket(url, named[1], named[2].strip("/"))
    return _Folder(url)


class _Folder:
    def __init__(self, url: str) -> None:
        self.url = url
        self._root = Path(url).expanduser()

    def list(self, folder: str) -> list[Entry]:
        with self._translated():
            self._root.stat()
            files = [path for path in (self._root / folder).rglob("*") if path.is_file()]
            passing = {path for path in files if has_passing_name(path)}
            remove_files(path for path in passing if is_old(path))  # their writer was killed
            return sorted(
                Entry(path.relative_to(self._root).as_posix(), path.stat().st_size)
                for path in files
                if path not in passing
            )

    def get(self, name: str) -> bytes:
        with self._translated():
            return (self._root / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        with self._translated():
            self._root.stat()  # do not create the folder of an unmounted disk on this one
            replace_file(self._root / name, data)

    def delete(self, names: Iterable[str]) -> None:
        with self._translated():
            remove_files(self._root / name for name in names)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self._root
            why = error.strerror or error
            raise RemoteError(
                f"{where}: {why}: see that the disk is there and takes files"
            ) from error


class _Bucket:
    def __init__(self, url: str, bucket: str, folder: str) -> None:
        self.url = url
        self._bucket = bucket
        self._prefix = f"{folder}/" if folder else ""
        self._made: Any = None

    def list(self, folder: str) -> list[Entry]:
        whole = f"{self._prefix}{folder}/"
        with self._translated():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=whole
            )
            files = [file for page in pages for file in page.get("Contents", ())]
        return sorted(
            Entry(file["Key"].removeprefix(self._prefix), int(file["Size"])) for file in files
        )

    def get(self, name: str) -> bytes:
        with self._translated():
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            data: bytes = answer["Body"].read()
            return data

    def put(self, name: str, data: bytes) -> None:
        with self._translated():
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=data)

    def delete(self, names: Iterable[str]) -> None:
        keys = [{"Key": self._prefix + name} for name in names]
        with self._translated():
            for start in range(0, len(keys), _MOST_DELETED):
                some = {"Objects": keys[start : start + _MOST_DELETED], "Quiet": True}
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=some)
                for error in answer.get("Errors", ()):
                    raise RemoteError(f"{self.url}: {error['Key']} stays: {error['Message']}")

    @property
    def _client(self) -> Any:
        if self._made is None:
            require("boto3", RemoteError)
            import boto3  # importing takes half a second
            from botocore.config import Config

            self._made = boto3.client(
                "s3",
                config=Config(
                    connect_timeout=_CONNECT_S,
                    read_timeout=_READ_S,
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    # unknown to many servers that speak S3
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
        return self._made

    @contextmanager
    def _translated(self) -> Iterator[None]:
        require("boto3", RemoteError)
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            cure = "see that AWS_ENDPOINT_URL, the region and the credentials are right"
            raise RemoteError(f"{self.url}: {error}: {cure}") from error
