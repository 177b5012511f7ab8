# SPDX-License-Identifier: Apache-2.0
"""`loadstone mcp`, called by the client of the package that defines the protocol."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("mcp", reason="mcp is not installed (the extra `mcp`)")

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from loadstone.cli import main
from loadstone.commands.mcp_tools import MAX_CHARACTERS
from tests.onnx_builder import Graph
from tests.search.small_network import small_network

T = "vtaq-tiny"
TOOLS = {"compile", "explain", "profile", "compare", "conform", "disasm"}
Ask = Callable[..., Awaitable[Any]]


def dilated() -> bytes:
    """An operator that the host computes by a step with code of its own."""
    graph = Graph()
    x = graph.input((1, 2, 8, 8), np.float32)
    y = graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1], dilations=[2, 2])
    return graph.save([(y, np.float32)])


def served(folder: Path, state: Path, use: Callable[[Any, Ask], Awaitable[None]]) -> None:
    """A server for the folder, a client of it, and what the client asks."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "loadstone", "mcp", str(folder)],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )

    async def asked() -> None:
        async with Client(stdio_client(server)) as client:

            async def ask(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                (content,) = result.content
                assert len(content.text) <= MAX_CHARACTERS
                return content.text if result.is_error else json.loads(content.text)

            await use(client, ask)

    anyio.run(asked)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "net.onnx").write_bytes(small_network())
    (made / "dilated.onnx").write_bytes(dilated())
    rng = np.random.default_rng(0)
    np.savez(made / "x.npz", in0=rng.integers(-128, 128, (1, 1, 16, 20, 20), np.int8))
    return made


def test_from_a_model_to_its_layers(folder: Path, tmp_path: Path) -> None:
    async def use(client: Any, ask: Ask) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert not any("trust" in tool.model_dump_json() for tool in tools)

        compiled = await ask("compile", model="net.onnx", target=T, output="net.lds")
        assert (compiled["device"], compiled["operators_by_place"][T]) == (T, 3)
        assert (folder / "net.lds").is_file()
        why = await ask("explain", model="net.onnx", target=T)
        assert [row["where"] for row in why["explain"]].count("vta") == 3
        assert all(row["why"] for row in why["explain"] if row["where"] == "host")
        profile = await ask("profile", artifact="net.lds")
        assert profile["cycles"] > 0
        assert any(layer["cycles"] for layer in profile["layers"])
        same = await ask("compare", artifact="net.lds", inputs="x.npz", model="net.onnx")
        assert same["compared"] == len(same["layers"])
        assert all(layer["different"] == 0 for layer in same["layers"])
        cases = await ask("conform", backend=T, cases=1)
        assert {case["outcome"] for case in cases["rows"]} <= {"taken", "refused"}

        first = await ask("disasm", file="net.lds")
        shown = first["shown"]
        assert 0 < shown["count"] < shown["of"]
        again = await ask("disasm", file="net.lds", first=shown["count"])
        assert again["lines"][0] not in first["lines"]
        assert {path.name for path in folder.iterdir()} == {
            "dilated.onnx",
            "net.lds",
            "net.onnx",
            "x.npz",
        }

    served(folder, tmp_path / "state", use)


def test_what_fails_is_said_in_loadstones_words(folder: Path, tmp_path: Path) -> None:
    async def use(client: Any, ask: Ask) -> None:
        said = await ask("compile", model="net.onnx", target="vta-nope", output="net.lds")
        assert "target: 'vta-nope' is no accelerator; known are vta-de10nano, " in said
        said = await ask("profile", artifact="none.lds")
        assert said.endswith("./none.lds: No such file or directory")
        said = await ask("profile", artifact="../net.lds")
        assert said.endswith("../net.lds is not below the folder that this server may use")
        said = await ask("profile", artifact="net.onnx")
        assert "name it with --target, or compile it first" in said
        said = await ask("disasm", file="x.npz", first=-2)
        assert "x.npz" in said

    served(folder, tmp_path / "state", use)


def test_what_it_compiles_is_not_the_users_own(folder: Path, tmp_path: Path) -> None:
    """Code in it does not run, here or on the command line, unless the user says so."""
    state = tmp_path / "state"

    async def use(client: Any, ask: Ask) -> None:
        made = await ask("compile", model="dilated.onnx", target=T, output="dilated.lds")
        assert made["in_c"]["steps_in_c"] == 1
        said = await ask("profile", artifact="dilated.lds")
        assert "--trust" in said

    served(folder, state, use)
    assert not list(tmp_path.glob("state/**/known"))


def test_the_command_line_does_record_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = ["compile", str(folder / "dilated.onnx"), "--target", T, "-o", str(folder / "d.lds")]
    assert main(words) == 0
    assert list(tmp_path.glob("state/**/known"))
