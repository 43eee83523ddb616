"""Our commands as a person types them, run in this process by click's runner."""

import json
from typing import Any

from click.testing import CliRunner, Result

from serve.cli import main


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin)


def succeed(*words: str, stdin: str | None = None) -> Result:
    """Run a command that must succeed."""
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def answer(*words: str, stdin: str | None = None) -> Any:
    """Return the JSON output of a command that must succeed."""
    result = run(*words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
