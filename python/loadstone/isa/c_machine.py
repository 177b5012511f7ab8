# SPDX-License-Identifier: Apache-2.0
"""machine.py's work in C, for a table all of whose meanings are in C: a file that is compiled with
them.

In:   an InstructionTable whose units do not wait for tokens.
Out:  C99: `NAME_run`, which decodes instructions, holds what they touch against the memories, lets
      each do what it means, and counts its time.
Next: runtime/c_machine.py calls it; an instruction that it refuses is looked at again in Python,
      which says why.

Sums and products stay at the largest number once they reach it: no memory ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_instruction import instruction_source
from loadstone.isa.form import InstructionForm
from loadstone.isa.queues import units_of
from loadstone.isa.state import MachineEvent, MachineState
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import fields_of

__all__ = [
    "BLOCK_BYTES",
    "CompiledClock",
    "compiled_clock",
    "has_c_machine",
    "machine_source",
    "units_in_order",
]

#: What order between instructions is kept by, of DRAM.
BLOCK_BYTES = 1024

_ENGINE = """\
/* GENERATED: {name}'s programs on its meanings in C, with their time. */
#include "{name}_meaning.h"

/* When blocks of DRAM [first, first + count) were last written and read. */
typedef struct span {{
  uint64_t first, count;
  int64_t *written, *read;
}} span;

/* By unit: when it is free, cycles of work and of waiting, how many it was given, when the last of
 * them began, its place in the order of those that had any. By memory: when rows were last written
 * and read. */
typedef struct machine_clock {{
  int64_t bytes_per_cycle, burst_bytes, burst_cycles, latency_cycles; /* 0 bytes: no port */
  int64_t queue, issued, port_free, end;
  int64_t *free, *busy, *stalled, *given, *began, *order;
  int64_t *const *written, *const *read;
  const span *spans;
  uint64_t units;
  uint64_t *registers, *known; /* what each holds; 1 where it is set */
}} machine_clock;

typedef struct touch {{
  unsigned memory;
  int writes;
  uint64_t first, end;
}} touch;

typedef struct touches {{
  touch of[{most}];
  unsigned count;
  int64_t port_cycles;
}} touches;

static uint64_t plus(uint64_t a, uint64_t b) {{ return a + b < a ? UINT64_MAX : a + b; }}

static uint64_t times(uint64_t a, uint64_t b) {{
  return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}}

static int64_t later(int64_t a, int64_t b) {{ return a > b ? a : b; }}

static uint64_t bits(const uint8_t *insn, unsigned bit, unsigned width) {{
  uint64_t value = 0;
  unsigned k = 0;
  while (k < width) {{
    const unsigned from = (bit + k) % 8u, some = 8u - from < width - k ? 8u - from : width - k;
    value |= (uint64_t)((unsigned)insn[(bit + k) / 8u] >> from & ((1u << some) - 1u)) << k;
    k += some;
  }}
  return value;
}}

static int64_t with_sign(uint64_t value, unsigned width) {{
  const uint64_t sign = (uint64_t)1 << (width - 1u);
  return value < sign ? (int64_t)value : -(int64_t)(sign - 1u - (value - sign)) - 1;
}}

static int is_there(const {name}_state *state, uint64_t first, uint64_t size, int writes) {{
  uint64_t k;
  for (k = 0; k < state->window_count; ++k) {{
    const {name}_window *w = &state->windows[k];
    const uint64_t at = first - w->bus;
    if (first >= w->bus && at <= w->size_bytes && size <= w->size_bytes - at) {{
      return w->writable || !writes;
    }}
  }}
  return 0;
}}

static uint64_t parts(uint64_t size, int64_t of) {{ return (size - 1u) / (uint64_t)of + 1u; }}

static int64_t port_cycles(const machine_clock *clock, uint64_t run, uint64_t (*loops)[2],
                           unsigned count) {{
  uint64_t runs = 1, each;
  if (clock->bytes_per_cycle == 0) return 0;
  while (count-- > 0) {{
    if (runs == 1 && loops[count][1] == run) {{
      run = times(run, loops[count][0]);
    }} else {{
      runs = times(runs, loops[count][0]);
    }}
  }}
  each = parts(run, clock->bytes_per_cycle);
  each += parts(run, clock->burst_bytes) * (uint64_t)clock->burst_cycles;
  return clock->latency_cycles + (int64_t)times(runs, each);
}}

/* 0 where a place is none. rows: of a local memory. */
static int reach(const {name}_state *state, const machine_clock *clock, touches *t,
                 unsigned memory, uint64_t rows, int writes, uint64_t first, uint64_t extent,
                 uint64_t (*loops)[2], unsigned count) {{
  uint64_t size = extent;
  unsigned k;
  touch *const made = &t->of[t->count];
  if (extent == 0) return 1;
  for (k = 0; k < count; ++k) {{
    if (loops[k][0] == 0) return 1;
    size = plus(size, times(loops[k][0] - 1u, loops[k][1]));
  }}
  if (memory == 0 ? !is_there(state, first, size, writes) : plus(first, size) > rows) return 0;
  made->memory = memory;
  made->writes = writes;
  made->first = first;
  made->end = first + size;
  ++t->count;
  if (memory == 0) t->port_cycles += port_cycles(clock, extent, loops, count);
  return 1;
}}

/* A register, which is a row of a memory of its own. */
static void touch_register(touches *t, unsigned memory, uint64_t number, int writes) {{
  touch *const made = &t->of[t->count++];
  made->memory = memory;
  made->writes = writes;
  made->first = number;
  made->end = number + 1u;
}}

/* The places of a touch, rows or blocks, as when they were last written and read. */
static uint64_t places(const machine_clock *clock, const touch *t, int64_t **written,
                       int64_t **read) {{
  const uint64_t first = t->first / {block}u;
  const span *s = clock->spans;
  if (t->memory != 0) {{
    *written = clock->written[t->memory - 1u] + t->first;
    *read = clock->read[t->memory - 1u] + t->first;
    return t->end - t->first;
  }}
  while (first - s->first >= s->count) ++s; /* every window is in one */
  *written = s->written + (first - s->first);
  *read = s->read + (first - s->first);
  return (t->end - 1u) / {block}u + 1u - first;
}}

static void count_time(machine_clock *clock, unsigned unit, int64_t work, const touches *t) {{
  int64_t ready = clock->end, start, end, *written, *read;
  int64_t *began = NULL;
  unsigned k;
  if (clock->queue != 0) {{
    began = clock->began + unit * clock->queue + clock->given[unit] % clock->queue;
    clock->issued = later(clock->issued + 1, clock->given[unit] >= clock->queue ? *began : 0);
    ready = later(clock->issued, clock->free[unit]);
  }}
  start = ready;
  for (k = 0; k < t->count; ++k) {{
    uint64_t count = places(clock, &t->of[k], &written, &read), n;
    for (n = 0; n < count; ++n) {{
      start = later(start, written[n]);
      if (t->of[k].writes) start = later(start, read[n]);
    }}
  }}
  if (t->port_cycles != 0) {{
    start = later(start, clock->port_free);
    clock->port_free = start + t->port_cycles;
  }}
  end = start + work + t->port_cycles;
  for (k = 0; k < t->count; ++k) {{
    uint64_t count = places(clock, &t->of[k], &written, &read), n;
    int64_t *const when = t->of[k].writes ? written : read;
    for (n = 0; n < count; ++n) when[n] = later(when[n], end);
  }}
  if (began != NULL) *began = start;
  if (clock->given[unit]++ == 0) clock->order[unit] = (int64_t)clock->units++;
  clock->free[unit] = end;
  clock->busy[unit] += end - start;
  clock->stalled[unit] += start - ready;
  clock->end = later(clock->end, end);
}}
"""

_RUN = """
/* Instructions from code + *at on, which moves behind what was done; how many that is. Fewer than
 * `count`: the next is refused, or its meaning reached for what is not there (state->fault). */
uint64_t {name}_run({name}_state *state, uint64_t *const *kept, machine_clock *clock,
                    const uint8_t *code, uint64_t size, uint64_t *at, uint64_t count) {{
  uint64_t done;
  for (done = 0; done < count; ++done) {{
    const uint64_t left = size - *at;
    uint64_t length = 0;
    if (left < 4u) break;
    switch (bits(code + *at, {where})) {{
{cases}
      default:
        break;
    }}
    if (length == 0) break;
    *at += length;
  }}
  return done;
}}
"""


def has_c_machine(table: InstructionTable) -> bool:
    """Whether it is one for this table: what is left to Python are units that wait for tokens,
    reaches through words, instructions that end a program, and times by a field with a sign."""
    if table.queues or not all(map(_in_c, table.forms)):
        return False
    return not any(form.ends for form in table.forms)


def _in_c(form: InstructionForm) -> bool:
    signed = {field.name for field in form.fields if field.signed}
    times = all(each >= 0 and signed.isdisjoint(fields_of(term)) for term, each in form.per)
    return times and all(reach.through is None for reach in form.reaches)


class CompiledClock(Protocol):
    """A program that C executes, and its time: runtime/c_machine.py has one."""

    events: Sequence[MachineEvent]

    @property
    def end(self) -> int:
        """Cycles so far."""

    @property
    def busy(self) -> Mapping[str, int]:
        """Cycles of work of each unit that had any."""

    @property
    def stalled(self) -> Mapping[str, int]:
        """Cycles in which an instruction waited at its unit."""

    @property
    def fault_address(self) -> int | None:
        """Where the meaning of the instruction that was not done reached for what is not there."""

    def advance(self, code: bytes, at: int, count: int) -> tuple[int, int]:
        """Does up to `count` instructions from byte `at` on: how many, and the byte behind."""


def compiled_clock(accelerator: Accelerator, state: MachineState) -> CompiledClock | None:
    """Of an accelerator all of whose meanings stand in one file of C; None for others."""
    meanings = [accelerator.meaning.get(form.name) for form in accelerator.table.forms]
    libraries = [getattr(meaning, "library", None) for meaning in meanings if meaning is not None]
    if not libraries or libraries[0] is None or any(one is not libraries[0] for one in libraries):
        return None
    clock: CompiledClock | None = libraries[0].clock(accelerator, state)
    return clock


def units_in_order(table: InstructionTable) -> list[str]:
    """As the clock numbers them."""
    return list(units_of(table.forms))


def machine_source(table: InstructionTable, meant: Collection[str]) -> str:
    """The whole file. meant: instructions that have a meaning."""
    most = max(1, *(len(form.reaches) for form in table.forms)) + 2 * len(table.registers)
    lines = [_ENGINE.format(name=table.name, most=most, block=BLOCK_BYTES)]
    # what the file only mentions is a message of runtime/c_meanings.py, no error of the linker
    lines += [f"#pragma weak {table.name}_mean_{name}" for name in meant]
    for form in table.forms:
        lines += ["", *instruction_source(table, form, form.name in meant)]
    where = f"{table.opcode_at}u, {table.opcode_bits}u"
    lines.append(_RUN.format(name=table.name, where=where, cases="\n".join(_cases(table))))
    return "\n".join(lines)


def _cases(table: InstructionTable) -> Iterator[str]:
    """By opcode, those that have it: codes tell them apart."""
    for opcode in dict.fromkeys(form.opcode for form in table.forms):
        yield f"      case {opcode}u:"
        for form in table.forms:
            if form.opcode != opcode:
                continue
            size, step = table.sizes[form.name], f"step_{form.name}(state, kept, clock, code + *at)"
            codes = (f"bits(code + *at, {c.at}u, {c.width}u) == {c.value}u" for c in form.codes)
            tests = " && ".join([f"left >= {size}u", *codes])
            yield f"        if ({tests}) {{"
            yield f"          if ({step}) length = {size}u;"
            yield "          break;"
            yield "        }"
        yield "        break;"
