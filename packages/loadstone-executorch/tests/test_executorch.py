# SPDX-License-Identifier: Apache-2.0
"""Programs of PT2E in .pte files, run by ExecuTorch's own runtime with artifacts inside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError, UnsupportedError
from tests.hosts.easy import Easy, bytes_kept

pytest.importorskip("executorch", reason="ExecuTorch is absent: see the README.md")
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import nn

import loadstone_executorch as host
from tests.torch_network import images, int8_program, quantize

TARGET = "vtaq-1x16x16"


#: Where each pixel of (1, C, 20, 28) comes from: from the other side of its row.
MIRROR = nn.functional.affine_grid(torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]]), [1, 1, 20, 28])


def mirrored(x: Any, grid: Any = MIRROR) -> Any:
    """An operator that no importer of ours reads, and of which ExecuTorch has a kernel."""
    return nn.functional.grid_sample(x, grid, mode="nearest")


class WithMirror(nn.Module):
    """Convolution, mirror, convolution: the middle stays with ExecuTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", MIRROR)
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 8, 3, stride=2, padding=1)

    def forward(self, x: Any) -> Any:
        """(1, 3, 20, 28) -> (1, 8, 10, 14)."""
        return torch.relu(self.second(mirrored(torch.relu(self.first(x)), self.grid)))


def lowered(program: Any, device: str = "sim") -> tuple[Any, host.LoadstonePartitioner]:
    partitioner = host.LoadstonePartitioner(program, TARGET, device)
    return to_edge_transform_and_lower(program, partitioner=[partitioner]), partitioner


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The back end, in this process."""
    path = host.build(tmp_path_factory.mktemp("executorch"))
    host.load(path)
    return path


@pytest.fixture(scope="module")
def mirror() -> tuple[Any, host.LoadstonePartitioner]:
    torch.manual_seed(0)
    return lowered(quantize(WithMirror().eval(), images(8, 1)))


def method(edge: Any) -> Callable[[Any], NDArray[Any]]:
    program = Runtime.get().load_program(edge.to_executorch().buffer)

    def run(x: Any) -> NDArray[Any]:  # the program holds the bytes, and stays with the function
        return program.load_method("forward").execute((x,))[0].numpy().copy()

    return run


def by_hand(edge: Any) -> Callable[[Any], NDArray[Any]]:
    """The two artifacts by lds_easy.h, PyTorch's mirror between them."""
    modules = edge.exported_program().graph_module
    nets = [Easy(bytes(getattr(modules, f"lowered_module_{n}").processed_bytes)) for n in range(2)]

    def run(x: Any) -> NDArray[Any]:
        middle, out = np.zeros((1, 16, 20, 28), np.float32), np.zeros((1, 8, 10, 14), np.float32)
        nets[0].run([x.numpy()], [middle])
        nets[1].run([mirrored(torch.from_numpy(middle)).numpy()], [out])
        return out

    return run


def test_a_network_gives_what_loadstone_gives() -> None:
    """XNNPACK's quantizer leaves the average pool to real numbers, and ExecuTorch computes it."""
    program = int8_program()
    edge, partitioner = lowered(program)
    run, ours = method(edge), compile(program, TARGET)
    assert set(partitioner.left) == {"aten_avg_pool2d_default", "aten_cat_default"}
    for x in images(4, 3):
        (wanted,) = ours.run(x.numpy()[None])
        assert np.array_equal(run(x), wanted[0])
        assert len(np.unique(wanted)) > 5


def test_what_stands_in_the_middle_is_executorchs(mirror: Any) -> None:
    edge, partitioner = mirror
    assert list(partitioner.left) == ["aten_grid_sampler_2d_default"]
    assert "no importer" in partitioner.left["aten_grid_sampler_2d_default"]
    called = [node.name for node in edge.exported_program().graph.nodes]
    assert sum(name.startswith("executorch_call_delegate") for name in called) == 2
    run, wanted = method(edge), by_hand(edge)
    for x in images(4, 5):
        assert np.array_equal(run(x), wanted(x))
        assert len(np.unique(wanted(x))) > 50


def test_weights_that_two_parts_share_are_in_both() -> None:
    class Twice(WithMirror):
        def forward(self, x: Any) -> Any:
            return self.first(mirrored(self.first(x), self.grid)[:, :3])

    torch.manual_seed(1)
    program = quantize(Twice().eval(), images(8, 1))
    edge, partitioner = lowered(program)
    assert "aten_grid_sampler_2d_default" in partitioner.left
    x = images(1, 5)[0]
    assert np.abs(method(edge)(x) - program.module()(x).detach().numpy()).max() < 0.1


def test_without_a_part_it_says_why() -> None:
    program = torch.export.export(nn.LogSigmoid(), (torch.zeros(1, 8),))
    with pytest.raises(UnsupportedError, match=f"no part of it runs on {TARGET}"):
        lowered(program)


def test_a_damaged_artifact_and_an_unknown_device_are_refused(
    mirror: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(mirror[0].to_executorch().buffer)
    at = data.index(b"LDSM")
    data[at + 40] ^= 1
    with pytest.raises(RuntimeError):
        Runtime.get().load_program(bytes(data)).load_method("forward")
    assert "loadstone: " in capfd.readouterr().err
    monkeypatch.setenv("LOADSTONE_DEVICE", "nowhere")
    with pytest.raises(RuntimeError):
        method(mirror[0])(images(1, 5)[0])
    assert "nowhere" in capfd.readouterr().err


def test_a_file_chooses_no_device_but_the_simulator(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Else a .pte from anybody opens sockets, files and memory of this machine."""
    torch.manual_seed(0)
    edge, _ = lowered(quantize(WithMirror().eval(), images(8, 1)), "null")
    monkeypatch.delenv("LOADSTONE_DEVICE", raising=False)
    with pytest.raises(RuntimeError):
        method(edge)(images(1, 5)[0])
    assert "asks for device 'null', and may choose sim alone" in capfd.readouterr().err
    monkeypatch.setenv("LOADSTONE_DEVICE", "null")
    method(edge)(images(1, 5)[0])


def test_a_compiler_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(LoadstoneError, match="install a C"):
        host.build(tmp_path)
    with pytest.raises(LoadstoneError, match="cannot be loaded"):
        host.load(tmp_path / "none.so")


def test_a_hundred_sessions_leave_nothing(mirror: Any) -> None:
    data, x = mirror[0].to_executorch().buffer, images(1, 5)[0]

    def session() -> None:
        program = Runtime.get().load_program(data)
        program.load_method("forward").execute((x,))

    assert bytes_kept(session) < 100_000


def test_two_threads(mirror: Any) -> None:
    wanted = by_hand(mirror[0])
    samples = [(x, wanted(x)) for x in images(20, 7)]
    wrong: list[int] = []

    def work(begin: int) -> None:
        run = method(mirror[0])
        for k in range(begin, len(samples), 2):
            if not np.array_equal(run(samples[k][0]), samples[k][1]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(begin,)) for begin in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
