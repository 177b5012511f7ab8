# SPDX-License-Identifier: Apache-2.0
"""What instructions mean, in C: the header that such functions see.

In:   an InstructionTable.
Out:  C99: the fields of each instruction, the device's memories, access to DRAM that stays inside.
Next: runtime/c_meanings.py compiles a plug-in's file with it, and calls it from the simulator.
"""

from __future__ import annotations

import numpy as np

from loadstone.errors import ConfigError
from loadstone.isa.capabilities import capability_macros
from loadstone.isa.table import InstructionForm, InstructionTable

__all__ = ["function_name", "meaning_header"]

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TYPES = {name: f"{name}_t" for name in _INTEGERS} | {"float32": "float", "float64": "double"}

_HEAD = """\
/* GENERATED: what functions see that say what {name}'s instructions do. For FORM it is
 *
 *     void {name}_mean_FORM({name}_state *state, const {name}_FORM_fields *i)
 *
 * Addresses are whole bus addresses. Behind its fields stand the registers that it reads. */
#ifndef {big}_MEANING_H
#define {big}_MEANING_H

#include <stddef.h>
#include <stdint.h>

typedef struct {name}_window {{
  uint64_t bus, size_bytes, writable;
  uint8_t *data;
}} {name}_window;

typedef struct {name}_state {{
  const {name}_window *windows;
  uint64_t window_count;
  uint64_t read_bytes, write_bytes; /* of this instruction */
  uint64_t fault, fault_address;    /* 1: of an access that is not allowed */
{members}}} {name}_state;
"""

_ACCESS = """
static inline uint8_t *{name}_dram({name}_state *state, uint64_t address, uint64_t size,
                                   int writes) {{
  uint64_t k;
  for (k = 0; k < state->window_count; ++k) {{
    const {name}_window *w = &state->windows[k];
    const uint64_t at = address - w->bus;
    const int inside = address >= w->bus && at <= w->size_bytes && size <= w->size_bytes - at;
    if (inside && (w->writable || !writes)) {{
      *(writes ? &state->write_bytes : &state->read_bytes) += size;
      return w->data + at;
    }}
  }}
  state->fault = 1;
  state->fault_address = address;
  return NULL;
}}

/* `size` bytes at a bus address; NULL where they may not be read: the function then returns. */
static inline const uint8_t *{name}_read({name}_state *state, uint64_t address, uint64_t size) {{
  return {name}_dram(state, address, size, 0);
}}

/* The same, to be written. */
static inline uint8_t *{name}_write({name}_state *state, uint64_t address, uint64_t size) {{
  return {name}_dram(state, address, size, 1);
}}
"""


def function_name(table: InstructionTable, form: InstructionForm) -> str:
    """Of the C function that says what an instruction does."""
    return f"{table.name}_mean_{form.name}"


def meaning_header(table: InstructionTable) -> str:
    """The whole header, `NAME_meaning.h`. Raises ConfigError for a type that C does not have."""
    name, big = table.name, table.name.upper()
    members = ""
    sizes = []
    for memory in table.memories:
        dtype = np.dtype(memory.dtype).name
        if dtype not in _TYPES:
            raise ConfigError(f"instruction set {name}: memory {memory.name}: no {dtype} in C")
        members += f"  {_TYPES[dtype]} *{memory.name}; /* {memory.rows} rows of {memory.lanes} */\n"
        sizes += [f"  {big}_{memory.name.upper()}_ROWS = {memory.rows},"]
        sizes += [f"  {big}_{memory.name.upper()}_LANES = {memory.lanes},"]
    for one in table.address_registers:
        members += f"  const uint64_t *{one.name}; /* {one.count} address registers */\n"
    lines = [_HEAD.format(name=name, big=big, members=members)]
    lines += capability_macros(name, table.forms, table.lacks)
    if sizes:
        lines += ["enum {", *sizes, "};"]
    lines.append(_ACCESS.format(name=name))
    for form in table.forms:
        lines.append(f"typedef struct {name}_{form.name}_fields {{")
        seen = table.seen_by[form.name]
        lines += [f"  {'int64_t' if bits.signed else 'uint64_t'} {bits.name};" for bits in seen]
        lines += [] if seen else ["  uint64_t none;"]
        lines.append(f"}} {name}_{form.name}_fields;")
        arguments = f"{name}_state *state, const {name}_{form.name}_fields *i"
        lines += [f"void {function_name(table, form)}({arguments});", ""]
    return "\n".join([*lines, f"#endif /* {big}_MEANING_H */", ""])
