# SPDX-License-Identifier: Apache-2.0
"""The C header's decoder and encoder.

In:   vta/isa/spec.py.
Out:  the text of functions between bytes and the structs of c_header.py.
Next: c_header.py puts them into the header.
"""

from __future__ import annotations

from loadstone.vta.isa import spec
from loadstone.vta.isa.spec import INSTRUCTIONS, MICRO_OPS, Field, Instruction, layout
from tools.isa.c_names import DEFAULT, c_width, own_fields, struct_of

__all__ = ["PRIMITIVES", "decoder", "dispatch", "encoder", "micro_ops"]

PRIMITIVES = """\
/* Written out, so that a compiler makes one load of it where it may. */
static inline uint64_t lds_get_u64(const uint8_t *p) {
  const uint32_t low = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
  const uint32_t high = (uint32_t)p[4] | (uint32_t)p[5] << 8 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 24;
  return (uint64_t)high << 32 | low;
}

static inline void lds_put_u64(uint8_t *p, uint64_t v) {
  unsigned k;
  for (k = 0; k < 8u; ++k) p[k] = (uint8_t)(v >> (8u * k));
}

static inline uint64_t lds_mask(uint32_t width) { return width >= 64u ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1u; }

static inline uint32_t lds_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Takes the lowest `width` bits, 1 to 32, off *word: what is left in the end is reserved. */
static inline uint32_t lds_take(uint64_t *word, uint32_t width) {
  const uint32_t v = (uint32_t)*word & UINT32_MAX >> (32u - width);
  *word >>= width;
  return v;
}

/* Takes `width` bits at a place of their own, and leaves zeros there. */
static inline uint32_t lds_cut(uint64_t *word, uint32_t at, uint32_t width) {
  const uint64_t m = lds_mask(width) << at;
  const uint32_t v = (uint32_t)((*word & m) >> at);
  *word &= ~m;
  return v;
}

/* Puts v at `*at`, moves on, and counts what does not fit. */
static inline void lds_give(uint64_t *word, uint32_t *at, uint32_t width, uint32_t v, uint32_t *misfits) {
  const uint64_t m = lds_mask(width);
  if (((uint64_t)v & ~m) != 0) ++*misfits;
  *word |= ((uint64_t)v & m) << *at;
  *at += width;
}

static inline int32_t lds_sign_extend(uint32_t v, uint32_t width) {
  const uint32_t sign = (uint32_t)1 << (width - 1u);
  return (int32_t)((int64_t)(v ^ sign) - (int64_t)sign);
}

/* The low `width` bits of a signed value; counts what does not fit. */
static inline uint32_t lds_signed_bits(int32_t v, uint32_t width, uint32_t *misfits) {
  const int64_t limit = (int64_t)1 << (width - 1u);
  if (v < -limit || v >= limit) ++*misfits;
  return (uint32_t)((uint64_t)(int64_t)v & lds_mask(width));
}"""


def _steps(insn: Instruction) -> list[tuple[Field, int, str | None]]:
    """(field, word, new position or None) for the fields after the flags."""
    result = []
    word = 0
    for field in own_fields(insn):
        moved = None
        if field.at is not None:
            word, bit = divmod(field.at, 64)
            moved = f"{bit}u"
        result.append((field, word, moved))
    return result


def decoder(insn: Instruction) -> str:
    """Fields in their order off the low end of each word; before that, those that stand behind a
    gap (`at` inside a word)."""
    name = struct_of(insn)
    lines = [
        f"static inline int lds_decode_{name}(lds_isa_widths w, uint64_t word[2], "
        f"lds_insn_{name} *out) {{"
    ]
    taken = layout(insn.fields, DEFAULT)[
        own_fields(insn)[0].name
    ].start  # opcode and flags are gone
    for field in own_fields(insn):
        width = c_width(field.width)
        if field.at is not None and field.at % 64:
            word, bit = divmod(field.at, 64)
            at = bit if word else bit - taken
            lines.insert(
                1,
                f"  out->{field.name} = lds_cut(&word[{word}], {at}u, {width}); /* bit "
                f"{field.at} */",
            )
            continue
        take = f"lds_take(&word[{_word_of(insn, field)}], {width})"
        lines.append(
            f"  out->{field.name} = "
            + (f"lds_sign_extend({take}, {width});" if field.signed else f"{take};")
        )
    lines.append("  (void)w;")
    for field in own_fields(insn):
        if field.enum is not None:
            assert [int(e) for e in field.enum] == list(range(len(field.enum)))
            lines.append(
                f"  if (out->{field.name} > {len(field.enum) - 1}u) return LDS_ISA_BAD_VALUE;"
            )
    return "\n".join([*lines, "  return LDS_ISA_OK;", "}"])


def _word_of(insn: Instruction, field: Field) -> int:
    """0 or 1: a field never straddles words."""
    return layout(insn.fields, DEFAULT)[field.name].start // 64


def encoder(insn: Instruction) -> str:
    """Fields to words; counts the fields that do not fit."""
    name = struct_of(insn)
    lines = [
        f"static inline uint32_t lds_encode_{name}(lds_isa_widths w, const lds_insn_{name} "
        f"*in, uint64_t word[2]) {{",
        "  uint32_t at = 7u, misfits = 0;",
    ]
    for field, word, moved in _steps(insn):
        if moved:
            lines.append(f"  at = {moved};")
        width = c_width(field.width)
        value = (
            f"lds_signed_bits(in->{field.name}, {width}, &misfits)"
            if field.signed
            else f"in->{field.name}"
        )
        lines.append(f"  lds_give(&word[{word}], &at, {width}, {value}, &misfits);")
    return "\n".join([*lines, "  (void)w;", "  return misfits;", "}"])


def dispatch() -> str:
    """Decoding and encoding of any instruction, by its opcode."""

    def cases(call: str) -> str:
        grouped: dict[str, list[str]] = {}
        for insn in INSTRUCTIONS:
            grouped.setdefault(struct_of(insn) if own_fields(insn) else "", []).append(insn.name)
        lines = []
        for struct, names in grouped.items():
            lines += [f"    case LDS_OPCODE_{n}:" for n in names]
            lines.append(f"      {call.format(struct=struct)}" if struct else "      break;")
            if struct:
                lines.append("      break;")
        return "\n".join(lines)

    flags = "".join(
        f"  out->flags.{f.name} = (uint8_t)lds_take(&word[0], 1u);\n"
        for f in spec.INSTRUCTIONS[0].fields[1:5]
    )
    gives = "".join(
        f"  lds_give(&word[0], &at, 1u, in->flags.{f.name}, &misfits);\n"
        for f in spec.INSTRUCTIONS[0].fields[1:5]
    )
    return f"""\
/* Fields of one instruction. LDS_ISA_OK, or why the bytes are none: *out is then partly written and must not be used. */
static inline int lds_insn_decode(lds_isa_widths w, const uint8_t *bytes, lds_insn *out) {{
  uint64_t word[2];
  int status = LDS_ISA_OK;
  word[0] = lds_get_u64(bytes);
  word[1] = lds_get_u64(bytes + 8);
  out->opcode = lds_take(&word[0], 3u);
{flags}  switch (out->opcode) {{
{cases("status = lds_decode_{struct}(w, word, &out->u.{struct});")}
    default:
      return LDS_ISA_BAD_OPCODE;
  }}
  if (status == LDS_ISA_OK && (word[0] | word[1]) != 0) status = LDS_ISA_RESERVED;
  return status;
}}

/* The 16 bytes of one instruction; LDS_ISA_RANGE when a field does not fit. */
static inline int lds_insn_encode(lds_isa_widths w, const lds_insn *in, uint8_t *bytes) {{
  uint64_t word[2] = {{0, 0}};
  uint32_t at = 0, misfits = 0;
  lds_give(&word[0], &at, 3u, in->opcode, &misfits);
{gives}  switch (in->opcode) {{
{cases("misfits += lds_encode_{struct}(w, &in->u.{struct}, word);")}
    default:
      return LDS_ISA_BAD_OPCODE;
  }}
  lds_put_u64(bytes, word[0]);
  lds_put_u64(bytes + 8, word[1]);
  return misfits == 0 ? LDS_ISA_OK : LDS_ISA_RANGE;
}}"""


def micro_ops() -> str:
    """Decoding and encoding of a micro-op."""
    takes = "\n".join(f"  u.{f.name} = lds_take(&word, {c_width(f.width)});" for f in MICRO_OPS)
    gives = "\n".join(
        f"  lds_give(&word, &at, {c_width(f.width)}, in->{f.name}, &misfits);" for f in MICRO_OPS
    )
    return f"""\
static inline lds_uop lds_uop_decode(lds_isa_widths w, uint32_t bits) {{
  uint64_t word = bits;
  lds_uop u;
{takes}
  return u;
}}

static inline int lds_uop_encode(lds_isa_widths w, const lds_uop *in, uint32_t *bits) {{
  uint64_t word = 0;
  uint32_t at = 0, misfits = 0;
{gives}
  *bits = (uint32_t)word;
  return misfits == 0 ? LDS_ISA_OK : LDS_ISA_RANGE;
}}"""
