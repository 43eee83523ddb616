"""The packages of the jobs, which an installation of `mnemolog-core` lacks."""

from importlib.util import find_spec

from store.home.errors import ConfigError, MnemologError


def is_installed(module: str) -> bool:
    """Return True if a top-level module can be imported; it is not."""
    return find_spec(module) is not None


def require(module: str, error: type[MnemologError] = ConfigError) -> None:
    """Raise `error` with the remedy if a module that only `mnemolog` brings is not installed."""
    if not is_installed(module):
        raise error(
            f"{module} is not installed: mnemolog-core comes without it. Add what it leaves out: "
            "`uv tool install mnemolog-core --with mnemolog`, or `pip install mnemolog`"
        )
