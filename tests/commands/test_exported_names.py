# SPDX-License-Identifier: Apache-2.0
"""`loadstone export --name`: several models in one firmware."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.vta.device.hw_config import load_config
from tests.commands.test_export import HOSTS
from tests.runtime.test_device import external_model
from tests.sample_model import copy_model, dense_model

#: Hosts as above, whose libraries are called as the modules ask for.
TWO = {
    "zephyr": HOSTS["zephyr"],
    "esp-idf": """
        set(ESP_PLATFORM 1)
        function(idf_component_register)
          cmake_parse_arguments(THE "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
          get_filename_component(NAME ${CMAKE_CURRENT_LIST_DIR} NAME)
          add_library(loadstone_${NAME} STATIC ${THE_SRCS})
          target_include_directories(loadstone_${NAME} PUBLIC ${THE_INCLUDE_DIRS})
        endfunction()""",
    "cmake": "",
}


@pytest.mark.parametrize("host", TWO)
def test_two_models_are_one_firmware_with_one_runtime(host: str, tmp_path: Path) -> None:
    """Of two devices with different register pages; every file of the runtime is compiled once."""
    artifacts = {"first": copy_model(), "second": dense_model(load_config("vta-pynq")).artifact}
    for name, artifact in artifacts.items():
        artifact.save(tmp_path / f"{name}.lds")
        words = ["export", f"{tmp_path}/{name}.lds", "--board", "module", "--name", name]
        assert main([*words, "-o", f"{tmp_path}/{name}"]) == 0
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\n#include <stdio.h>\n'
        "int main(void) {\n"
        "  lds_model first, second;\n"
        "  int status = lds_model_open(&first, first_bytes, first_bytes_end - first_bytes);\n"
        "  status |= lds_model_open(&second, second_bytes, second_bytes_end - second_bytes);\n"
        '  printf("%d %s %s %s %s\\n", status, lds_model_name(&first), FIRST_REGISTERS.name,\n'
        "         lds_model_name(&second), SECOND_REGISTERS.name);\n"
        "  return 0;\n}\n"
    )
    library = "loadstone_model" if host == "cmake" else "loadstone_second loadstone_first"
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.22)\nproject(app LANGUAGES C ASM)\n{TWO[host]}\n"
        "add_subdirectory(first)\nadd_subdirectory(second)\nadd_executable(app main.c)\n"
        f"target_link_libraries(app PRIVATE {library})\n"
    )
    tools = Path(sys.executable).parent
    build = str(tmp_path / "build")
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    wanted = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    for command in (
        [str(tools / "cmake"), "-S", str(tmp_path), "-B", build, *ninja, *wanted],
        [str(tools / "cmake"), "--build", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    names = [Path(c["file"]).name for c in commands]
    assert len(names) == len(set(names))
    assert {"session.c", "regs_native.c", "regs_hls.c", "first.S", "second.S"} <= set(names)
    said = subprocess.run([f"{build}/app"], capture_output=True, text=True, check=True).stdout
    assert said == "0 copy native dense vta-hls\n"


def test_functions_of_steps_do_not_meet(tmp_path: Path) -> None:
    """Two models with the same function of a plug-in: each has its own."""
    external_model().save(tmp_path / "m.lds")
    for name in ("one", "two"):
        words = ["export", f"{tmp_path}/m.lds", "--board", "module", "--name", name]
        assert main([*words, "-o", f"{tmp_path}/{name}"]) == 0
    sources = [str(p) for n in ("one", "two") for p in (tmp_path / n / "steps").glob("*.c")]
    includes = [f"-I{tmp_path}/{n}" for n in ("one", "two", "one/loadstone/include")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-r", "-nostdlib", *includes]
    command = ["gcc", *flags, *sources, "-o", str(tmp_path / "all.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["nm", f"{tmp_path}/all.o"], capture_output=True, text=True, check=True)
    for symbol in ("one_external", "two_external", "one_plugin_tests_total"):
        assert f" T {symbol}\n" in listed.stdout


@pytest.mark.parametrize(
    ("name", "board", "complaint"),
    [
        ("net1", "linux", "is for --board module and arduino, not for linux"),
        ("2nd", "module", "is not a name in C"),
        ("loadstone", "module", "is not a name in C"),
    ],
)
def test_a_name_that_cannot_be_is_one_line(
    name: str, board: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_model().save(tmp_path / "m.lds")
    words = ["export", f"{tmp_path}/m.lds", "--board", board, "--name", name]
    assert main([*words, "-o", f"{tmp_path}/out"]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
