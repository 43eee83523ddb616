"""A library's own tests, loaded as modules to run against our adapters."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).parents[2] / ".adapters" / "sources"


def load(package: str, test: str) -> ModuleType:
    """Return a test file of a package as a module; its imports are beside it, in `tests`."""
    [root] = SOURCES.glob(f"{package}-[0-9]*/")
    ours = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "tests"}
    sys.path.insert(0, str(root))
    try:
        spec = importlib.util.spec_from_file_location(f"theirs_{package}", root / test)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(root))
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        sys.modules.update(ours)
