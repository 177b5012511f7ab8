# SPDX-License-Identifier: Apache-2.0
"""hosts/tvm_memory.py: all tensors of TVM's virtual machines lie in the accelerator's memory, and
nothing is copied on their way to it.

Each test runs in a process that has TVM and not our package: TVM keeps the first allocator that a
device gets. Compiling against TVM's headers takes seconds: `make test-all` runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import LoadstoneError
from loadstone.hosts import tvm as host
from loadstone.hosts import tvm_memory
from loadstone.relax.compat import tvm
from tests.compiled import golden
from tests.hosts.partial import images, onnx_with_sine
from tests.hosts.test_tvm import LLVM, TARGET, exported, wanted
from tests.repeat import more

#: What the scripts below begin with. `Machine`: the main of a library, which notes the bus address
#: of every tensor that its virtual machine hands to a function, 0 where the device has none.
BEGIN = """
import sys
sys.modules["loadstone"] = sys.modules["torch"] = None
import ctypes
import numpy as np, tvm, tvm_ffi
from tvm.runtime.vm import VirtualMachine
folder, early = sys.argv[1:3]
called = lambda name, *arguments: tvm.get_global_func("loadstone.memory." + name)(*arguments)
if early:
    ctypes.CDLL(folder + "/libloadstone_tvm.so")
def placed(x):
    tensor = called("empty", tvm_ffi.Shape(x.shape), str(x.dtype))
    np.from_dlpack(tensor)[...] = x
    return tensor
class Machine:
    def __init__(self, name, device=tvm.cpu(), share=True, memory=None):
        module = tvm.runtime.load_module(f"{folder}/{name}.so")
        self.get = lambda name: module.get_function(name, query_imports=True)
        if share:
            self.get("loadstone_share_memory")()
        machine = VirtualMachine(module, device, memory_cfg=memory)
        if share:
            machine.set_instrument(self.note)
        self.main, self.seen, self.outside, self.names = machine["main"], [], set(), set()
    def note(self, function, name, before, result, *arguments):
        tensors = [t for t in arguments if isinstance(t, tvm.runtime.Tensor)]
        self.seen += [called("bus", t) for t in tensors] if before else []
        self.outside |= {np.from_dlpack(t).ctypes.data for t in tensors if not called("bus", t)}
        self.names |= {name}
    def copied(self, *names):
        return sum(self.get("loadstone_copied_bytes")(name) for name in names)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """libloadstone_tvm.so; the network with a sine in the middle for cpu and for ext_dev; ResNet8;
    samples of both."""
    path = tmp_path_factory.mktemp("memory")
    assert tvm_memory.build(path) == path / "libloadstone_tvm.so"
    (path / "sine.onnx").write_bytes(onnx_with_sine())
    for name, target in (
        ("sine", LLVM),
        ("ext_dev", {"kind": "llvm", "target_device_type": 12}),  # kDLExtDev
    ):
        module = host.codegen(host.partition(path / "sine.onnx", TARGET), TARGET)
        built = tvm.compile(module, tvm.target.Target(target, host="llvm"))
        built.export_library(str(path / f"{name}.so"), **host.link())
    np.save(path / "x.npy", images(4))
    np.save(path / "y.npy", wanted(path / "sine.so", images(4)))
    file = "mlpt_resnet8_int8.tflite"
    module = host.partition(shared / "models" / file, TARGET)
    exported(host.codegen(module, TARGET), path / "resnet8.so")
    (x,), (y,) = golden(shared, file, 4)
    np.savez(path / "resnet8.npz", x=x, y=y)
    return path


def run(folder: Path, script: str, early: bool = True) -> list[str]:
    """The lines that a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, str(folder), "early" if early else ""],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


VM_WIDE = """
x, y = np.load(folder + "/x.npy"), np.load(folder + "/y.npy")
sine, resnet8 = Machine("sine"), Machine("resnet8", memory="naive")
for sample, want in zip(x, y):
    got = sine.main(placed(sample))
    assert np.array_equal(np.from_dlpack(got), want) and called("bus", got)
assert any("sin" in name for name in sine.names) and "loadstone_1" in sine.names, sine.names
images = np.load(folder + "/resnet8.npz")
for sample, want in zip(images["x"], images["y"]):
    got = np.from_dlpack(resnet8.main(placed(sample)))
    assert np.array_equal(got, want.reshape(got.shape))
for machine in (sine, resnet8):
    print(len(machine.seen), sum(bus == 0 for bus in machine.seen), len(machine.outside))
print(sine.copied("loadstone_0", "loadstone_1"), resnet8.copied("loadstone_0"))
sine.main(tvm.runtime.tensor(x[0]))  # from memory of the CPU's own
print(sine.copied("loadstone_0", "loadstone_1"), called("used_bytes") > 0)
"""


@more
def test_all_storage_of_virtual_machines_is_the_devices(folder: Path) -> None:
    """Two libraries that share one device: each tensor that is handed to any function, TVM's own
    too, has a bus address, but for one constant of the network's; no byte is copied, and those of
    one foreign tensor are counted."""
    lines = run(folder, VM_WIDE)
    (seen, *outside), (some, *none) = (list(map(int, line.split())) for line in lines[:2])
    assert seen >= 4 * 6
    assert some >= 4 * 2
    assert (outside, none) == ([4, 1], [0, 0])
    assert lines[2:] == ["0 0", f"{images(1)[0].nbytes} True"]


EXT_DEV = """
x, y = np.load(folder + "/x.npy"), np.load(folder + "/y.npy")
sine = Machine("ext_dev", tvm.ext_dev(0))
begin = called("copied_bytes")
print(begin)
for sample, want in zip(x, y):
    there = tvm.runtime.tensor(sample, tvm.ext_dev(0))
    before = called("copied_bytes")
    got = sine.main(there)
    assert called("copied_bytes") == before and called("bus", there) and called("bus", got)
    assert got.device.dlpack_device_type() == 12 and np.array_equal(got.numpy(), want)
print(sum(bus == 0 for bus in sine.seen), sine.copied("loadstone_0", "loadstone_1"))
print(called("copied_bytes") - begin - x.nbytes - y.nbytes)
"""


@more
def test_tensors_of_ext_dev_are_the_devices(folder: Path) -> None:
    """TVM's own functions run on them as code for LLVM; what is copied is the constant, when the
    machine is made, and what NumPy gave and took."""
    assert run(folder, EXT_DEV) == [str(16 * 6 * 6 * 4), "0 0", "0"]


ERRORS = """
def line(call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        return str(error).strip().splitlines()[-1]
sine = Machine("sine", share=False)
x = tvm.runtime.tensor(np.load(folder + "/x.npy")[0])
sine.main(x)
print(line(sine.get("loadstone_share_memory")))
ctypes.CDLL(folder + "/libloadstone_tvm.so")
print(line(sine.get("loadstone_share_memory")))
"""


@more
def test_a_library_that_comes_too_late_is_refused(folder: Path) -> None:
    absent, late = run(folder, ERRORS, early=False)
    assert "loadstone_share_memory: load libloadstone_tvm.so first" in absent
    assert "load libloadstone_tvm.so before the first virtual machine" in late


BEFORE = """
x, y = np.load(folder + "/x.npy"), np.load(folder + "/y.npy")
other = Machine("resnet8", share=False)
other.get("loadstone_device")("sim;pool_mb=4")
first = Machine("sine", share=False)
first.main(tvm.runtime.tensor(x[0]))
print(first.copied("loadstone_0") > 0, called("used_bytes"), called("bus", placed(x[0])))
other.get("loadstone_share_memory")()
try:
    first.get("loadstone_share_memory")()
except Exception as error:
    print(str(error).strip().splitlines()[-1])
try:
    called("empty", tvm_ffi.Shape((1 << 23,)), "int8")
except Exception as error:
    print(str(error).strip().splitlines()[-1])
"""


@more
def test_memory_before_a_device_is_shared_and_behind_its_end(folder: Path) -> None:
    """Ordinary memory, and a library that has a device already keeps it."""
    counts, other, full = run(folder, BEFORE)
    assert counts == "True 0 0"
    assert "another library shares its device already" in other
    assert "device 'sim;pool_mb=4' does not have 8388608 bytes of memory left" in full


def test_what_cannot_be_built_or_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(LoadstoneError, match="no-such-compiler: No such file.*install a C\\+\\+"):
        tvm_memory.build(tmp_path)
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(LoadstoneError, match=r"false cannot compile memory\.cc"):
        tvm_memory.build(tmp_path)
    with pytest.raises(LoadstoneError, match=r"none\.so: cannot be loaded"):
        tvm_memory.load(tmp_path / "none.so")
