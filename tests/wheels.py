"""The wheels of this tree, built as a release builds them."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
CORE, CLIENT = ROOT / "serve" / "core", ROOT / "serve" / "program"


def build(tree: Path, folder: Path) -> ZipFile:
    """Return the wheel of a pyproject.toml's folder, written to a folder of its own."""
    folder.mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=120)
    [wheel] = folder.glob("*.whl")
    return ZipFile(wheel)
