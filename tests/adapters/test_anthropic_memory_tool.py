"""Anthropic's memory tool over a live server: the tests of Anthropic's own tool, then ours."""

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from mnemolog import Client
from mnemolog.adapters.anthropic import AsyncMemoryTool, MemoryTool
from sources import load

THEIRS = load("anthropic", "tests/lib/tools/memory_tools/test_filesystem.py")
# tests that need a disk: links, modes, files written past the tool or of a million lines
OF_FILES = ("symlink", "umask", "world_writable", "crlf", "too_many_lines")


def _theirs(of: type, takes: str) -> list[str]:
    return [
        name
        for name, test in inspect.getmembers(of, inspect.isfunction)
        if name.startswith("test_")
        and {*inspect.signature(test).parameters} == {"self", takes}
        and not any(word in name for word in OF_FILES)
    ]


SYNC = THEIRS.TestBetaLocalFilesystemMemoryTool
ASYNC = THEIRS.TestBetaAsyncLocalFilesystemMemoryTool


def files(client: Client) -> dict[str, str]:
    """Return the memory's files, as their tests list a folder's."""
    files = {}
    for memory in client.memories.list(tag=["anthropic-memory"]):
        details = memory.metadata["anthropic-memory"]
        path = details["path"]
        files[path.removeprefix("/")] = (memory.text + details["end"]).removeprefix(f"{path}\n")
    return files


@pytest.fixture
def tool(client: Client, monkeypatch: pytest.MonkeyPatch) -> MemoryTool:
    monkeypatch.setattr(THEIRS, "get_directory_snapshot", lambda path: files(client))
    tool = MemoryTool(client)
    tool.base_path = Path("/")
    return tool


@pytest.mark.parametrize("name", _theirs(SYNC, "sync_local_filesystem_tool"))
def test_what_anthropic_tests_of_its_tool_holds(name: str, tool: MemoryTool):
    getattr(SYNC(), name)(tool)


@pytest.mark.parametrize("name", _theirs(ASYNC, "async_local_filesystem_tool"))
def test_what_anthropic_tests_of_its_async_tool_holds(name: str, tool: MemoryTool, client: Client):
    awaited = AsyncMemoryTool(client)
    awaited.base_path = Path("/")
    asyncio.run(getattr(ASYNC(), name)(awaited))


def call(tool: MemoryTool, **command: Any) -> Any:
    return tool.call(command)


def test_a_file_is_recalled_and_keeps_its_history(tool: MemoryTool, client: Client):
    path = "/memories/deploy.md"
    call(tool, command="create", path=path, file_text="Deploys go out from us-east-1\n")
    call(tool, command="str_replace", path=path, old_str="us-east-1", new_str="eu-west-1")
    [hit] = client.recall("where do deploys go out from").hits
    assert "eu-west-1" in hit.text and hit.trust == "agent"
    assert [memory.text.split()[-1] for memory in client.memories.history(hit.id).memories] == [
        "eu-west-1",
        "us-east-1",
    ]
    assert files(client) == {"memories/deploy.md": "Deploys go out from eu-west-1\n"}


@pytest.mark.parametrize(
    "text", ["", "\n\n", "test", "42", "  indented\n\n  twice  \n", "one\r\ntwo\r\n"]
)
def test_a_file_comes_back_as_it_was_written(text: str, tool: MemoryTool, client: Client):
    call(tool, command="create", path="/memories/a.txt", file_text=text)
    assert files(client) == {"memories/a.txt": text}


def test_what_the_server_refuses_is_told_to_claude(tool: MemoryTool):
    with pytest.raises(ToolError, match="split /memories/a"):
        call(tool, command="create", path="/memories/a", file_text="word " * 20_000)
    with pytest.raises(ToolError, match="is not a directory"):
        call(tool, command="create", path="/memories/b", file_text="one")
        call(tool, command="create", path="/memories/b/c", file_text="two")


def test_it_is_declared_as_the_tool_that_claude_knows(tool: MemoryTool):
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    assert call(tool, command="view", path="/memories").endswith("\n0B\t/memories")
    tool.create(SimpleNamespace(path="/memories/x", file_text="one"))
    assert tool.clear_all_memory() and call(tool, command="view", path="/memories").endswith(
        "0B\t/memories"
    )
