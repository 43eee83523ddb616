"""The files of the wheel `mnemolog-core`: the folders of code at the top of the tree."""

from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("store", "serve", "pipelines")
OTHERS = ("serve/core", "serve/program")  # this one's metadata, and the client's distribution


class CoreFiles(BuildHookInterface[BuilderConfig]):
    """Adds the folders to a wheel; hatchling itself takes only what is below its pyproject.toml."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a path to the top is enough
            return
        top = Path(self.root).parents[1]
        for path in sorted(path for folder in FOLDERS for path in (top / folder).rglob("*")):
            name = path.relative_to(top).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and not name.startswith(OTHERS):
                build_data["force_include"][str(path)] = name
