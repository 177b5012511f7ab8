# SPDX-License-Identifier: Apache-2.0
"""`loadstone mcp [FOLDER]`: a server for programs that speak the Model Context Protocol.

In:   requests on stdin.
Out:  answers on stdout: those of compile, explain, profile, compare, conform, disasm.
Next: commands/mcp_tools.py says which words each runs; docs/mcp.md.

Each request is a process of its own: what a model's file does to it ends there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from loadstone.commands.answers import add_json_option, json_text
from loadstone.commands.mcp_tools import Asked, Folder, bounded, environment
from loadstone.errors import LoadstoneError
from loadstone.files import JsonValue

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone mcp work             tools for the files below the folder `work`
  loadstone mcp --json           the tools and their arguments, and no server

what a client of the protocol is told to start:
  {"mcpServers": {"loadstone": {"command": "loadstone", "args": ["mcp", "work"]}}}
"""
_INSTRUCTIONS = (
    "Compiles trained int8 networks for accelerators. Names of files are relative to the server's "
    "folder. An answer with many rows shows the first ones: `shown` says of how many, and `first` "
    "asks for others."
)
#: A request that takes longer is ended.
_MAX_SECONDS = 600
#: A check that found a difference has an answer like any other.
_ANSWERED = (0, 1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds FOLDER."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        default=Path("."),
        help="the folder that requests may read and write (default: the current one)",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> None:
    """Serves until stdin ends."""
    import anyio
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("loadstone", instructions=_INSTRUCTIONS, log_level="WARNING")
    for tool in _tools(Folder(args.folder)):
        said = " ".join(str(tool.__doc__).split())
        name = tool.__name__.rstrip("_")
        server.add_tool(tool, name=name, description=said, structured_output=False)
    if not args.json:
        server.run(transport="stdio")
        return
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in anyio.run(server.list_tools)
    ]
    print(json_text({"tools": tools}))


def _tools(folder: Folder) -> list[Callable[..., Awaitable[str]]]:
    """Functions whose names, arguments and docstrings a client is shown."""

    async def compile_(model: str, target: str, output: str) -> str:
        """Compile a .tflite, .onnx or .pt2 file for a target (such as vtaq-1x16x16, or a .json file
        of a device) into the artifact `output` (.lds). Figures: operators on the device and on the
        host, instructions, memory."""
        return await _answer(folder, lambda: folder.compile(model, target, output))

    async def explain(model: str, target: str, first: int = 0) -> str:
        """Where each operator of a model would run on a target; of those that stay on the host the
        reason, and what would change it. Writes nothing."""
        with tempfile.TemporaryDirectory() as other:
            output = os.path.join(other, "explained.lds")
            return await _answer(folder, lambda: folder.explain(model, target, output), first)

    async def profile(artifact: str, first: int = 0) -> str:
        """The time of every layer of an artifact: cycles, what bounds it, utilisation."""
        return await _answer(folder, lambda: folder.profile(artifact), first)

    async def compare(artifact: str, inputs: str, model: str, first: int = 0) -> str:
        """How each layer of an artifact differs from its model's file on inputs (.npz: in0, ...,
        samples first)."""
        return await _answer(folder, lambda: folder.compare(artifact, inputs, model), first)

    async def conform(backend: str, cases: int = 8, first: int = 0) -> str:
        """Test a back end that is built in or installed with generated operators: each is taken,
        refused with a reason, or wrong. Wrong ones come first."""
        return await _answer(folder, lambda: folder.conform(backend, cases), first)

    async def disasm(file: str, device: str = "", first: int = 0) -> str:
        """The instructions of an artifact, or of instruction bytes for a device, as text."""
        return await _answer(folder, lambda: folder.disasm(file, device), first)

    return [compile_, explain, profile, compare, conform, disasm]


async def _answer(folder: Folder, words_of: Callable[[], Asked], first: int = 0) -> str:
    """Runs the words; raises ToolError with what Loadstone says, which reaches the client."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        asked = words_of()
        value = await _value(folder, asked)
        return bounded(value if asked.table else _sorted(value), asked.table, first)
    except LoadstoneError as error:
        raise ToolError(str(error)) from None


async def _value(folder: Folder, asked: Asked) -> JsonValue:
    import anyio

    head, *rest = asked.words
    command = [sys.executable, "-m", "loadstone", head, "--json", *rest]
    try:
        with anyio.fail_after(_MAX_SECONDS):
            done = await anyio.run_process(
                command, check=False, cwd=folder.root, env=environment(os.environ)
            )
    except TimeoutError:
        raise LoadstoneError(f"{head} took more than {_MAX_SECONDS} seconds") from None
    try:
        value = json.loads(done.stdout)
    except ValueError:  # a traceback, or a process that was ended
        raise LoadstoneError(
            f"{head} ended with status {done.returncode} and no answer: a mistake of Loadstone's, "
            "please report it with the file"
        ) from None
    if done.returncode not in _ANSWERED:
        raise LoadstoneError(value["error"]["message"])
    return value


def _sorted(cases: JsonValue) -> JsonValue:
    """Of conform: what is wrong comes first."""
    if not isinstance(cases, list):
        return cases
    order = ("wrong", "untried", "refused", "taken")
    return sorted(cases, key=lambda case: order.index(case["outcome"]))
