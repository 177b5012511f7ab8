# SPDX-License-Identifier: Apache-2.0
"""The text of driver/include/lds_isa.h: constants, structs, places of fields, registers.

In:   vta/isa/spec.py, vta/isa/registers.py; decoder and encoder of c_codec.py.
Out:  `header`.
Next: __main__.py writes it; runtime/, driver/ and hw_sim/ include it.

The header is C99 and C++: shifts and masks over two 64-bit words, no bit-fields, no dependence on
byte order. Its decoder takes the device's widths at run time, as vta/isa/codec.py does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag

from loadstone.vta.isa import registers, spec
from loadstone.vta.isa.spec import INSTRUCTIONS, MICRO_OPS
from loadstone.vta.isa.values import (
    GROUP_WEIGHTS,
    LEAST_PLANES,
    PLANE_WEIGHTS,
    PLANE_WORD_BYTES,
)
from tools.isa.c_codec import PRIMITIVES, decoder, dispatch, encoder, micro_ops
from tools.isa.c_names import BANNER, c_width, distinct, own_fields, struct_of

__all__ = ["header"]


def header() -> str:
    """The C header."""
    parts = [
        f"/* {BANNER}\n *\n * In:   16 instruction bytes and a device's widths.\n * Out:  "
        "the fields, and back; register offsets.\n"
        " * Next: runtime/, driver/ and hw_sim/ use nothing else to know a bit.\n */\n/* "
        "SPDX-License-Identifier: Apache-2.0 */\n/* clang-format off */",
        "#ifndef LDS_ISA_H\n#define LDS_ISA_H\n\n#include <stddef.h>\n#include "
        '<stdint.h>\n\n#ifdef __cplusplus\nextern "C" {\n#endif',
        _constants(),
        _structs(),
        PRIMITIVES,
        "\n\n".join(decoder(i) + "\n\n" + encoder(i) for i in distinct() if own_fields(i)),
        dispatch(),
        _stage_of(),
        micro_ops(),
        _register_defines(),
        "#ifdef __cplusplus\n}\n#endif\n\n#endif /* LDS_ISA_H */",
    ]
    return "\n\n".join(parts) + "\n"


def _enum(cls: type[IntEnum] | type[IntFlag], prefix: str) -> str:
    return "\n".join(f"#define LDS_{prefix}_{member.name} {int(member)}u" for member in cls)


def _constants() -> str:
    blocks = [
        f"#define LDS_INSN_BYTES {spec.INSN_BYTES}u\n#define LDS_UOP_BYTES {spec.UOP_BYTES}u\n"
        f"#define LDS_MAX_TOKENS {spec.MAX_TOKENS}u\n#define LDS_MAX_REGIONS {spec.MAX_REGIONS}u",
        _enum(spec.Opcode, "OPCODE"),
        _enum(spec.Memory, "MEMORY"),
        _enum(spec.AluOp, "ALU"),
        _enum(spec.Stage, "STAGE"),
        _queues(),
        _by_memory(),
        _enum(spec.ConfigRegister, "CONFIG"),
        _enum(spec.Rounding, "ROUNDING"),
        _enum(spec.Capability, "CAP"),
        "/* The largest window of DEPTHWISE, and the weights that each of its rows has room for. */\n"
        f"#define LDS_WINDOW_COLUMNS {spec.WINDOW_COLUMNS}u\n"
        f"#define LDS_WINDOW_ROWS {spec.WINDOW_ROWS}u\n"
        f"#define LDS_WINDOW_PITCH {spec.WINDOW_PITCH}u\n"
        f"#define LDS_WIDE_FACTOR {spec.WIDE_FACTOR}",
        "/* Weights of 4 bits along K that share a multiplier and a minimum. */\n"
        f"#define LDS_GROUP_WEIGHTS {GROUP_WEIGHTS}u",
        "/* Weights that share a number of bit planes, and rows of them that share a head; the least "
        "planes; bytes of a word of\n * their code. */\n"
        f"#define LDS_PLANE_WEIGHTS {PLANE_WEIGHTS}u\n"
        f"#define LDS_LEAST_PLANES {LEAST_PLANES}u\n"
        f"#define LDS_PLANE_WORD_BYTES {PLANE_WORD_BYTES}u",
        "/* What a stage's registers hold when a program starts. */\n"
        + "\n".join(f"#define LDS_DEFAULT_{r.name} ({v})" for r, v in spec.CONFIG_DEFAULTS.items()),
        "/* Results of decode and encode. */\n#define LDS_ISA_OK 0\n#define "
        "LDS_ISA_BAD_OPCODE (-1)\n#define LDS_ISA_BAD_VALUE (-2) /* an enumerated field "
        "holds an unknown value */\n#define LDS_ISA_RESERVED (-3)  /* a reserved bit is set "
        "*/\n#define LDS_ISA_RANGE (-4)     /* a field does not fit */",
    ]
    return "\n\n".join(blocks)


def _queues() -> str:
    """The token queues, and tables of them by stage, as initializers."""
    queues = spec.TOKEN_QUEUES
    assert all(
        (queues[n ^ 1].pusher, queues[n ^ 1].popper) == (queue.popper, queue.pusher)
        for n, queue in enumerate(queues)
    )
    lines = [
        "/* Token queues between neighbouring stages; the one that runs back from queue q is q ^ 1. */"
    ]
    lines += [
        f"#define LDS_QUEUE_{queue.pusher.name}_TO_{queue.popper.name} {n}u"
        for n, queue in enumerate(queues)
    ]
    lines += [
        f"#define LDS_QUEUES {len(queues)}u",
        "/* Initializers, by stage: the queue that a flag is about; LDS_QUEUES where the stage has no such neighbour. */",
    ]
    for flag in spec.TOKEN_FLAGS:
        row = []
        for stage in spec.Stage:
            ends = [
                (q.pusher, q.push) if flag.startswith("push") else (q.popper, q.pop) for q in queues
            ]
            row.append(ends.index((stage, flag)) if (stage, flag) in ends else len(queues))
        lines.append(f"#define LDS_QUEUE_OF_{flag.upper()} {_initializer(row)}")
    lines.append("/* Initializer, by queue: the stage that pushes. */")
    lines.append(f"#define LDS_QUEUE_PUSHERS {_initializer([q.pusher for q in queues])}")
    return "\n".join(lines)


def _by_memory() -> str:
    """Tables by memory_id, as initializers."""
    stages = _initializer([spec.LOAD_STAGE[memory] for memory in spec.Memory])
    scratchpads = _initializer([spec.SCRATCHPAD_OF[memory] for memory in spec.Memory])
    return (
        "/* Initializers, by memory_id: the stage that loads it; the scratchpad that it means. */\n"
        f"#define LDS_MEMORIES {len(spec.Memory)}u\n"
        f"#define LDS_LOAD_STAGES {stages}\n#define LDS_SCRATCHPADS {scratchpads}"
    )


def _initializer(values: Sequence[int]) -> str:
    return f"{{{', '.join(f'{int(value)}u' for value in values)}}}"


def _stage_of() -> str:
    """The stage that executes an instruction."""
    lines = [
        "/* The stage that executes an instruction; compute for values that do not decode. */",
        "static inline uint32_t lds_stage_of(const lds_insn *insn) {",
        "  static const uint8_t load_stage[LDS_MEMORIES] = LDS_LOAD_STAGES;",
        "  switch (insn->opcode) {",
    ]
    for insn in INSTRUCTIONS:
        if insn.stage == "memory_id":
            value = f"insn->u.{struct_of(insn)}.memory_id"
            where = f"{value} < LDS_MEMORIES ? load_stage[{value}] : LDS_STAGE_COMPUTE"
        elif isinstance(insn.stage, spec.Stage):
            where = f"LDS_STAGE_{insn.stage.name}"
        else:
            where = f"insn->u.{struct_of(insn)}.{insn.stage}"
        if where != "LDS_STAGE_COMPUTE":
            lines += [f"    case LDS_OPCODE_{insn.name}:", f"      return {where};"]
    return "\n".join([*lines, "    default:", "      return LDS_STAGE_COMPUTE;", "  }", "}"])


def _structs() -> str:
    parts = [
        "/* What decides the meaning of a program; the bytes of HwConfig.configuration(). Widths of "
        "elements are log2 of\n * their bits: 3 is int8, 4 is bfloat16, with float32 for int32. */\n"
        "typedef struct lds_hw_config "
        "{\n  uint8_t isa_version, log_inp_width, log_wgt_width, log_acc_width;\n"
        "  uint8_t log_batch, log_block, log_uop_buff, log_inp_buff, log_wgt_buff, "
        "log_acc_buff, zero[2];\n  uint32_t uop_depth, capabilities;\n} lds_hw_config;",
        "static inline int lds_is_float(const lds_hw_config *c) { return c->log_inp_width == 4u; }",
        "/* The rows of a device's largest window of DEPTHWISE. */\n"
        "static inline uint32_t lds_window_rows(uint32_t block) {\n"
        "  return block / LDS_WINDOW_PITCH < LDS_WINDOW_ROWS ? block / LDS_WINDOW_PITCH : "
        "LDS_WINDOW_ROWS;\n}",
        "/* Bit planes of a row of weights, by the head of its group. */\n"
        "static inline uint32_t lds_plane_count(uint64_t head, uint32_t row) {\n"
        "  const uint32_t more = (uint32_t)(head >> 4u * row) & 7u;\n"
        "  return more < 8u - LDS_LEAST_PLANES ? LDS_LEAST_PLANES + more : 8u;\n}",
        "/* Field widths of one device: log2 of what the encoding can name (not of what it "
        "has: uop_depth). */\n"
        "typedef struct lds_isa_widths {\n  uint32_t lu, li, lw, la;\n} lds_isa_widths;",
        "static inline lds_isa_widths lds_isa_widths_of(const lds_hw_config *c) "
        "{\n  lds_isa_widths w;\n"
        "  w.lu = c->log_uop_buff - 2u;\n  w.li = (uint32_t)c->log_inp_buff - c->log_batch - "
        "c->log_block - (c->log_inp_width - 3u);\n"
        "  w.lw = (uint32_t)c->log_wgt_buff - 2u * c->log_block - (c->log_wgt_width - 3u);\n  w.la = "
        "(uint32_t)c->log_acc_buff - c->log_batch - c->log_block - 2u;\n  return w;\n}",
        "/* Dependency tokens: a pop waits before the instruction, a push follows it. */\n"
        "typedef struct lds_insn_flags "
        "{\n  uint8_t pop_prev, pop_next, push_prev, push_next;\n} lds_insn_flags;",
    ]
    for insn in distinct():
        body = [
            f"  {'int32_t' if f.signed else 'uint32_t'} {f.name}; /* {f.doc} */"
            for f in own_fields(insn)
        ]
        if body:
            names = " and ".join(i.name for i in INSTRUCTIONS if i.fields == insn.fields)
            parts.append(
                f"/* {names} */\ntypedef struct lds_insn_{struct_of(insn)} {{\n"
                + "\n".join(body)
                + f"\n}} lds_insn_{struct_of(insn)};"
            )
    parts.append(_places())
    members = "\n".join(
        f"    lds_insn_{struct_of(i)} {struct_of(i)};" for i in distinct() if own_fields(i)
    )
    parts.append(
        "/* The fields of `store` up to x_stride are those of `memory`, and may be read as such. */\n"
        "typedef struct lds_insn "
        f"{{\n  uint32_t opcode;\n  lds_insn_flags flags;\n  union {{\n{members}\n  }} u;\n}} "
        f"lds_insn;"
    )
    parts.append(
        "typedef struct lds_uop {\n"
        + "\n".join(f"  uint32_t {f.name}; /* {f.doc} */" for f in MICRO_OPS)
        + "\n} lds_uop;"
    )
    return "\n\n".join(parts)


def _places() -> str:
    """First bit of every field, as a number or, where it depends on the device, as a macro of its
    widths."""
    lines = [
        "/* First bits, for code that looks at a field, or changes one, without decoding the "
        "rest: w is the device's lds_isa_widths. */"
    ]
    for insn in distinct():
        bit, terms = 0, ""
        for field in insn.fields:
            if field.at is not None:
                bit, terms = field.at, ""
            own = field in own_fields(insn)
            if own or insn is INSTRUCTIONS[0]:
                name = f"LDS_BIT_{struct_of(insn).upper() + '_' if own else ''}{field.name.upper()}"
                lines.append(
                    f"#define {name}(w) ({bit}u{terms})" if terms else f"#define {name} {bit}u"
                )
            if isinstance(field.width, int):
                bit += field.width
            else:
                terms += f" + {c_width(field.width)}".replace("w.", "(w).")
    return "\n".join(lines)


def _register_defines() -> str:
    parts = []
    for block, table in registers.BLOCKS.items():
        lines = [f"/* Register block `{block}`: byte offsets. */"]
        for r in table:
            lines.append(
                f"#define LDS_{block.upper()}_{r.name} 0x{r.offset:04X}u /* {r.access}: {r.doc} */"
            )
            if r.count > 1:
                lines.append(
                    f"#define LDS_{block.upper()}_{r.name}_STRIDE {r.stride}u /* {r.count} "
                    "of them */"
                )
        parts.append("\n".join(lines))
    parts.append(
        "\n".join(
            f"#define LDS_{n} 0x{v:X}u"
            for n, v in {**registers.REGISTER_VALUES, **registers.BITS}.items()
        )
    )
    parts.append(
        "/* STATUS */\n"
        + "\n".join(f"#define LDS_STATE_{n} {v}u" for n, v in registers.STATES.items())
    )
    parts.append(
        "/* ERROR */\n"
        + "\n".join(
            f"#define LDS_ERROR_{n} {v}u /* {doc} */" for n, (v, doc) in registers.ERRORS.items()
        )
    )
    return "\n\n".join(parts)
