# SPDX-License-Identifier: Apache-2.0
"""tools/isa: the generated files are current, and the C header agrees with Python about every
instruction."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.errors import EncodingError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa import registers
from loadstone.vta.isa.codec import decode, decode_stream, decode_uops, encode_stream, encode_uops
from loadstone.vta.isa.insn import CLASSES, KINDS, stage_of
from loadstone.vta.isa.spec import INSTRUCTIONS, Memory, Opcode, Stage, layout
from tests.random_insns import CONFIGS, random_stream
from tests.repeat import times
from tools.isa import __main__ as isa_tool

STRICT = [
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wundef",
    "-Wcast-qual",
]
PER_KIND = 100_000
MAX_FIELDS = max(len(i.fields) for i in INSTRUCTIONS)
OK, RANGE = 0, -4
#: A record: status, then the fields of the instruction in the order of the spec, opcode first.
Records = NDArray[np.int64]
Run = Callable[[str, HwConfig, bytes], NDArray[np.int64]]

each_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is absent: apt-get install gcc"
)


def test_the_files_in_the_tree_are_current(root: Path) -> None:
    assert isa_tool.stale(root) == []


def test_stale_files_are_found_and_written(tmp_path: Path) -> None:
    names = sorted(isa_tool.OUTPUTS)
    assert sorted(p.relative_to(tmp_path).as_posix() for p in isa_tool.stale(tmp_path)) == names
    isa_tool.write(tmp_path)
    assert isa_tool.stale(tmp_path) == []
    (tmp_path / names[0]).write_text("edited by hand")
    assert isa_tool.write(tmp_path) == [tmp_path / names[0]]
    assert isa_tool.write(tmp_path) == []


def test_the_command_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isa_tool.main([], tmp_path) == 0
    assert "lds_isa.h written" in capsys.readouterr().out
    assert isa_tool.main(["--check"], tmp_path) == 0
    header = tmp_path / "driver/include/lds_isa.h"
    header.write_text(header.read_text().replace("x_pad_0", "x_pad_2"))
    assert isa_tool.main(["--check"], tmp_path) == 1
    assert "lds_isa.h differs from the spec" in capsys.readouterr().out


def test_the_page_names_every_instruction_field_and_register() -> None:
    page = isa_tool.page()
    for insn in INSTRUCTIONS:
        assert f"## {insn.name} (opcode {int(insn.opcode)})" in page
        for field in insn.fields:
            assert f"| {field.name} |" in page
    for table in registers.BLOCKS.values():
        for register in table:
            assert f"| 0x{register.offset:04X} | {register.name}" in page


# --- the header, through a C program --------------------------------------------------------------
def harness() -> str:
    """Reads a device, then instructions (d), records (e) or micro-ops (u) until the end; writes
    what the header makes of them."""

    def members(opcode: Opcode) -> list[str]:
        own = {Opcode.LOAD: "memory"}.get(opcode, opcode.name.lower())
        fields = KINDS[opcode].fields[1:]
        return [
            f"flags.{f.name}" if f in KINDS[Opcode.FINISH].fields else f"u.{own}.{f.name}"
            for f in fields
        ]

    gets = "".join(
        f"    case {int(op)}: "
        + " ".join(f"r[{k + 2}] = (int64_t)i.{m};" for k, m in enumerate(members(op)))
        + " break;\n"
        for op in Opcode
    )
    puts = "".join(
        f"    case {int(op)}: "
        + " ".join(f"i.{m} = ({_c_type(op, k)})r[{k + 2}];" for k, m in enumerate(members(op)))
        + " break;\n"
        for op in Opcode
    )
    return f"""
#include <stdio.h>
#include <string.h>
#include "lds_isa.h"
int main(int argc, char **argv) {{
  lds_hw_config c;
  lds_isa_widths w;
  int64_t r[{MAX_FIELDS + 1}];
  uint8_t b[16];
  if (argc != 2 || fread(&c, sizeof c, 1, stdin) != 1) return 1;
  w = lds_isa_widths_of(&c);
  if (argv[1][0] == 'd') while (fread(b, 16, 1, stdin) == 1) {{
    lds_insn i;
    memset(&i, 0x55, sizeof i);
    memset(r, 0, sizeof r);
    r[0] = lds_insn_decode(w, b, &i);
    r[1] = (int64_t)i.opcode;
    if (r[0] == LDS_ISA_OK) switch (i.opcode) {{
{gets}    }}
    fwrite(r, sizeof r, 1, stdout);
  }}
  if (argv[1][0] == 'e') while (fread(r, sizeof r, 1, stdin) == 1) {{
    lds_insn i;
    int64_t status;
    memset(&i, 0, sizeof i);
    memset(b, 0, sizeof b);
    i.opcode = (uint32_t)r[1];
    switch (i.opcode) {{
{puts}    }}
    status = lds_insn_encode(w, &i, b);
    fwrite(&status, sizeof status, 1, stdout);
    fwrite(b, sizeof b, 1, stdout);
  }}
  if (argv[1][0] == 'u') while (fread(b, 4, 1, stdin) == 1) {{
    const uint32_t bits = (uint32_t)lds_get_u64((memset(b + 4, 0, 4), b));
    const lds_uop u = lds_uop_decode(w, bits);
    uint32_t back = 0;
    r[0] = lds_uop_encode(w, &u, &back);
    r[1] = u.dst;
    r[2] = u.src;
    r[3] = u.wgt;
    r[4] = (int64_t)back;
    fwrite(r, 8, 5, stdout);
  }}
  return 0;
}}
"""


def _c_type(opcode: Opcode, member: int) -> str:
    return (
        "uint8_t"
        if member < 4
        else "int32_t"
        if KINDS[opcode].fields[1 + member].signed
        else "uint32_t"
    )


def compiled(header: str, folder: Path) -> Run:
    """The harness with `header`, as a function of mode, device and input bytes."""
    (folder / "lds_isa.h").write_text(header)
    (folder / "harness.c").write_text(harness())
    subprocess.run(
        ["gcc", *STRICT, "-O2", "harness.c", "-o", "harness"], cwd=folder, check=True, timeout=120
    )

    def run(mode: str, config: HwConfig, data: bytes) -> NDArray[np.int64]:
        result = subprocess.run(
            [folder / "harness", mode],
            input=config.configuration() + data,
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        )
        return np.frombuffer(result.stdout, np.int64)

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compiled(isa_tool.header(), tmp_path_factory.mktemp("header"))


def records_of(opcode: Opcode, config: HwConfig, seed: int) -> tuple[Records, NDArray[np.uint8]]:
    """PER_KIND instructions of a kind as records, and the bytes Python makes of them."""
    stream = random_stream(config, PER_KIND, seed, (opcode,))
    records = np.zeros((PER_KIND, MAX_FIELDS + 1), np.int64)
    records[:, 1] = opcode
    for k, values in enumerate(stream.columns[opcode].values()):
        records[:, 2 + k] = values
    return records, encode_stream(stream, config)


def mismatches(run: Run, config: HwConfig) -> tuple[int, int]:
    """(decode, encode): instructions that C and Python see differently, of PER_KIND of each
    kind."""
    decoded = encoded = 0
    for opcode in Opcode:
        records, data = records_of(opcode, config, seed=int(opcode))
        found = run("d", config, data.tobytes()).reshape(-1, MAX_FIELDS + 1)
        decoded += int(np.any(found != records, axis=1).sum())
        answer = run("e", config, records.tobytes()).view(np.uint8).reshape(-1, 24)
        status = answer[:, :8].copy().view(np.int64)[:, 0]
        encoded += int(np.any((status != OK)[:, None] | (answer[:, 8:] != data), axis=1).sum())
    return decoded, encoded


@needs_gcc
@each_config
def test_c_and_python_agree_on_every_kind(run: Run, config: HwConfig) -> None:
    assert mismatches(run, config) == (0, 0)


@needs_gcc
@pytest.mark.parametrize("operation", ["lds_take", "lds_give"])
def test_two_swapped_fields_are_found(operation: str, tmp_path: Path) -> None:
    lines = isa_tool.header().splitlines()
    src_out, src_in = (
        next(
            k for k, line in enumerate(lines) if operation in line and re.search(rf"->{f}\b", line)
        )
        for f in ("src_out", "src_in")
    )
    lines[src_out], lines[src_in] = lines[src_in], lines[src_out]
    decoded, encoded = mismatches(compiled("\n".join(lines) + "\n", tmp_path), CONFIGS[0])
    assert (decoded > PER_KIND // 2, encoded > PER_KIND // 2) == (
        operation == "lds_take",
        operation == "lds_give",
    )


@needs_gcc
@each_config
def test_c_and_python_refuse_the_same_bytes(run: Run, config: HwConfig) -> None:
    rng = np.random.default_rng(3)
    count = times(1000, 3000)
    data = encode_stream(random_stream(config, count, seed=4), config).copy()
    data[np.arange(count), rng.integers(0, 16, count)] ^= 1 << rng.integers(0, 8, count).astype(
        np.uint8
    )  # one bit is wrong
    data[::3] = rng.integers(0, 256, data[::3].shape)
    status = run("d", config, data.tobytes()).reshape(-1, MAX_FIELDS + 1)[:, 0]
    refused = 0
    for k, insn in enumerate(data):
        try:
            decode(insn.tobytes(), config)
        except EncodingError:
            refused += 1
            assert status[k] != OK
        else:
            assert status[k] == OK
    assert count // 6 < refused < count - count // 30


@needs_gcc
@each_config
def test_c_refuses_what_does_not_fit(run: Run, config: HwConfig) -> None:
    records = []
    for opcode, spec in KINDS.items():
        for k, (name, place) in enumerate(layout(spec.fields, config.widths).items()):
            for value in (place.low - 1, place.high + 1):
                if name != "opcode" and (-(1 << 31) if place.field.signed else 0) <= value < (
                    1 << (31 if place.field.signed else 32)
                ):
                    records.append([0, opcode, *[0] * (k - 1), value, *[0] * (MAX_FIELDS - 1 - k)])
    answer = run("e", config, np.array(records, np.int64).tobytes()).view(np.uint8).reshape(-1, 24)
    assert (answer[:, :8].copy().view(np.int64) == RANGE).all()
    assert len(records) > 60


@needs_gcc
@each_config
def test_c_and_python_agree_on_micro_ops(run: Run, config: HwConfig) -> None:
    width = config.la + max(config.la, config.li) + config.lw
    bits = np.random.default_rng(5).integers(0, 1 << width, PER_KIND).astype("<u4")
    bits[:4] = [0, 1, (1 << width) - 1, 1 << (width - 1)]
    found = run("u", config, bits.tobytes()).reshape(-1, 5)
    assert (found[:, 0] == OK).all()
    np.testing.assert_array_equal(found[:, 1:4], decode_uops(bits, config))
    np.testing.assert_array_equal(found[:, 4], encode_uops(found[:, 1:4], config))


@needs_gcc
def test_the_header_is_also_cplusplus_and_freestanding(tmp_path: Path) -> None:
    (tmp_path / "lds_isa.h").write_text(isa_tool.header())
    (tmp_path / "a.c").write_text('#include "lds_isa.h"\n')
    flags = [f for f in STRICT if not f.startswith("-std")]
    subprocess.run(
        ["g++", "-std=c++17", *flags, "-x", "c++", "-fsyntax-only", "a.c"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    subprocess.run(
        ["gcc", *STRICT, "-ffreestanding", "-fsyntax-only", "a.c"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )


def test_all_classes_are_covered() -> None:
    assert set(CLASSES) == set(Opcode) == set(KINDS)
    assert {
        type(i)
        for i in decode_stream(
            encode_stream(random_stream(CONFIGS[0], len(Opcode), 0), CONFIGS[0]), CONFIGS[0]
        )
    } == set(CLASSES.values())


@needs_gcc
def test_c_and_python_agree_on_stages_and_queues(root: Path, tmp_path: Path) -> None:
    """Every opcode, memory and CONFIG stage; every flag of every stage."""
    source = tmp_path / "tables.c"
    source.write_text(
        """
        #include <stdio.h>
        #include "lds_isa.h"
        int main(void) {
          static const unsigned of[4][3] = {LDS_QUEUE_OF_POP_PREV, LDS_QUEUE_OF_POP_NEXT,
                                            LDS_QUEUE_OF_PUSH_PREV, LDS_QUEUE_OF_PUSH_NEXT};
          static const unsigned pushers[LDS_QUEUES] = LDS_QUEUE_PUSHERS;
          static const unsigned scratchpads[LDS_MEMORIES] = LDS_SCRATCHPADS;
          unsigned opcode, value, k;
          for (opcode = 0; opcode <= LDS_OPCODE_DEPTHWISE; ++opcode)
            for (value = 0; value < LDS_MEMORIES; ++value) {
              lds_insn i = {0};
              i.opcode = opcode;
              if (opcode == LDS_OPCODE_CONFIG) i.u.config.stage = value % 3u;
              if (opcode <= LDS_OPCODE_STORE) i.u.memory.memory_id = value;
              printf("%u ", (unsigned)lds_stage_of(&i));
            }
          for (k = 0; k < 12u; ++k) printf("%u ", of[k / 3u][k % 3u]);
          for (k = 0; k < LDS_QUEUES; ++k) printf("%u ", pushers[k]);
          for (k = 0; k < LDS_MEMORIES; ++k) printf("%u ", scratchpads[k]);
          return 0;
        }
        """
    )
    program = tmp_path / "tables"
    include = root / "driver" / "include"
    subprocess.run(["gcc", *STRICT, f"-I{include}", source, "-o", program], check=True)
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    insns = [
        CLASSES[opcode](
            **({"stage": value % 3} if opcode is Opcode.CONFIG else {}),
            **({"memory_id": value} if opcode in (Opcode.LOAD, Opcode.STORE) else {}),
        )
        for opcode in Opcode
        for value in range(len(Memory))
    ]
    expected = [int(stage_of(insn)) for insn in insns]
    queues = [("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")]
    for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
        for stage, (before, after) in {
            "load": (None, "compute"),
            "compute": ("load", "store"),
            "store": ("compute", None),
        }.items():
            other = before if flag.endswith("prev") else after
            queue = (stage, other) if flag.startswith("push") else (other, stage)
            expected.append(queues.index(queue) if queue in queues else len(queues))
    expected += [Stage[pusher.upper()] for pusher, _ in queues]
    expected += [0, 1, 2, 3, 3, 3, 1, 1]
    assert [int(word) for word in out.split()] == expected
