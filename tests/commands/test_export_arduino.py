# SPDX-License-Identifier: Apache-2.0
"""`loadstone export --board arduino`: a library of Arduino's layout, compiled as Arduino does."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

from loadstone.artifact import host_step
from loadstone.cli import main
from loadstone.vta.device.hw_config import load_config
from tests.board.tools import need, run
from tests.branches import branches
from tests.conftest import ROOT
from tests.repeat import more
from tests.sample_model import copy_model, dense_model

#: What a sketch has of Arduino, as far as the example uses it.
ARDUINO_H = """#include <stdint.h>
#include <stddef.h>
uint32_t micros();
struct Line {
  void begin(long) {}
  void println(const char *) {}
  void println(unsigned long) {}
  void println(int) {}
};
extern Line Serial;
"""


def build(folder: Path, library: Path) -> None:
    """gcc.o of the library and g++.o of its example, in the folder."""
    sketch = (library / "examples/RunOnce/RunOnce.ino").read_text()
    (folder / "sketch.cpp").write_text("#include <Arduino.h>\n" + sketch)
    (folder / "Arduino.h").write_text(ARDUINO_H)
    sources = sorted(str(p) for p in (library / "src").glob("*.[cS]"))
    flags = (
        "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -Os -Wall -Werror -r -nostdlib -fno-exceptions"
    )
    for compiler, what in (("gcc", sources), ("g++", [str(folder / "sketch.cpp")])):
        out = ["-o", f"{compiler}.o", f"-I{library / 'src'}", f"-I{folder}"]
        done = subprocess.run(
            [f"arm-none-eabi-{compiler}", *flags.split(), *out, *what],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_an_arduino_library_builds_as_arduino_builds_it(tmp_path: Path) -> None:
    """Sources and headers in src/ alone, which is named to the compiler; the example as C++. A
    processor that fuses products and sums does not, with Arduino's flags."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    text = (
        "lds_c_0f\nvoid lds_c_0f(void *const *o);\nvoid lds_c_0f(void *const *o) {\n"
        "  const float *x = (const float *)o[0];\n  *(float *)o[1] = x[0] * x[1] + x[2];\n}\n"
    )
    fused = host_step.external("fused", [0], [1], "loadstone.c", text)
    model = copy_model()
    dataclasses.replace(model, steps=(*model.steps, fused)).save(tmp_path / "m.lds")
    library = tmp_path / "loadstone_model"
    assert main(["export", f"{tmp_path}/m.lds", "--board", "arduino", "-o", str(library)]) == 0
    names = {path.name for path in library.iterdir()}
    assert names == {"library.properties", "src", "examples"}
    lines = (library / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    needed = "name version author maintainer sentence paragraph category url architectures"
    assert properties.keys() >= set(needed.split())
    assert properties["architectures"] == "*"
    for name in properties["includes"].split(","):
        assert (library / "src" / name).is_file()
    build(tmp_path, library)
    names = set()
    for file in ("gcc.o", "g++.o"):
        listed = subprocess.run(
            ["arm-none-eabi-nm", file], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        names |= set(re.findall(r" [A-TV-Za-z] (\S+)$", listed, re.MULTILINE))
    missing = set(re.findall(r" U (lds_\S+|model_\S+)$", listed, re.MULTILINE)) - names
    assert not missing
    assert {"lds_session_open", "model_bytes", "model_external", "_Z5setupv"} <= names
    code = subprocess.run(
        ["arm-none-eabi-objdump", "-d", "gcc.o"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "vmul.f32" in code
    assert not re.search(r"vfn?m[as]\.f32", code)


@more
def test_the_example_opens_two_devices(tmp_path: Path) -> None:
    """VTA-Q and the systolic array of the examples: the sketch has what the library asks for."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    branches(tmp_path)[0].save(tmp_path / "m.lds")
    library = tmp_path / "loadstone_model"
    words = ["export", f"{tmp_path}/m.lds", "--board", "arduino", "-o", str(library)]
    assert main([*words, "--uma-backends", str(ROOT / "docs/examples/systolic")]) == 0
    build(tmp_path, library)
    defined = subprocess.run(
        ["arm-none-eabi-nm", "g++.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert " T board_accelerator\n" in defined


def test_two_libraries_are_one_sketch_with_one_runtime(tmp_path: Path) -> None:
    """Each an archive, as Arduino makes of a library that says dot_a_linkage: of the runtime, which
    both have, the linker takes one. They are for two devices, with registers of two kinds."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
    artifacts = {"first": copy_model(), "second": dense_model(load_config("vta-pynq")).artifact}
    flags = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-Wall", "-Werror", "-ffunction-sections"]
    for name, artifact in artifacts.items():
        library = tmp_path / name
        artifact.save(tmp_path / f"{name}.lds")
        words = ["export", f"{tmp_path}/{name}.lds", "--board", "arduino", "--name", name]
        assert main([*words, "-o", str(library)]) == 0
        lines = (library / "library.properties").read_text().splitlines()
        assert {f"name=loadstone_{name}", "dot_a_linkage=true"} < set(lines)
        (tmp_path / f"objects_{name}").mkdir()
        sources = sorted((library / "src").glob("*.[cS]"))
        compile_ = ["arm-none-eabi-gcc", *flags, f"-I{library / 'src'}", "-c", *sources]
        run(compile_, cwd=tmp_path / f"objects_{name}")
        objects = sorted((tmp_path / f"objects_{name}").glob("*.o"))
        run(["arm-none-eabi-ar", "rcs", tmp_path / f"lib{name}.a", *objects])
    (tmp_path / "sketch.cpp").write_text(
        "#include <first.h>\n#include <second.h>\n"
        "int main() {\n  lds_model first, second;\n"
        "  int status = lds_model_open(&first, first_bytes, first_bytes_end - first_bytes);\n"
        "  status |= lds_model_open(&second, second_bytes, second_bytes_end - second_bytes);\n"
        "  return status | (FIRST_REGISTERS.name == SECOND_REGISTERS.name);\n}\n"
    )
    includes = [f"-I{tmp_path / name / 'src'}" for name in artifacts]
    run(
        ["arm-none-eabi-g++", *flags, *includes, "-fno-exceptions", "-c", "sketch.cpp"],
        cwd=tmp_path,
    )
    link = ["arm-none-eabi-gcc", *flags, "-nostdlib", "-Wl,-emain", "sketch.o"]
    archives = ["-Wl,--start-group", "libfirst.a", "libsecond.a", "-lc", "-lgcc", "-Wl,--end-group"]
    run([*link, *archives, "-o", "sketch.elf"], cwd=tmp_path)
    symbols = run(["arm-none-eabi-nm", "sketch.elf"], cwd=tmp_path).split()
    for name in ("first_bytes", "second_bytes", "lds_model_open", "lds_registers_hls"):
        assert symbols.count(name) == 1
