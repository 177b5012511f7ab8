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
from fractions import Fraction
from typing import Protocol

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_meaning import function_name
from loadstone.isa.form import DRAM, Bits, InstructionForm, Reach, UnitBy
from loadstone.isa.queues import units_of
from loadstone.isa.state import MachineEvent, MachineState
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Factor, Sum, Term, factors, fields_of

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
    switch (bits(code + *at, 0, {opcode_bits}u)) {{
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

_CASE = """\
      case {opcode}u:
        if (left >= {size}u && step_{form}(state, kept, clock, code + *at)) length = {size}u;
        break;"""


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
    most = max(1, *(len(form.reaches) for form in table.forms))
    lines = [_ENGINE.format(name=table.name, most=most, block=BLOCK_BYTES)]
    # what the file only mentions is a message of runtime/c_meanings.py, no error of the linker
    lines += [f"#pragma weak {table.name}_mean_{name}" for name in meant]
    for form in table.forms:
        lines += ["", *_step(table, form, form.name in meant)]
    cases = (
        _CASE.format(opcode=form.opcode, size=table.sizes[form.name], form=form.name)
        for form in table.forms
    )
    opcode_bits = table.opcode_bits
    lines.append(_RUN.format(name=table.name, opcode_bits=opcode_bits, cases="\n".join(cases)))
    return "\n".join(lines)


def _step(table: InstructionTable, form: InstructionForm, meant: bool) -> Iterator[str]:
    """One instruction: 0 where it is refused."""
    name = table.name
    yield f"static int step_{form.name}({name}_state *state, uint64_t *const *kept,"
    yield "    machine_clock *clock, const uint8_t *insn) {"
    yield f"  {name}_{form.name}_fields i;"
    yield "  touches t;"
    yield "  (void)state, (void)kept, (void)insn, (void)i;"
    yield "  t.count = 0;"
    yield "  t.port_cycles = 0;"
    for field in form.fields:
        yield from _field(field, table.places[form.name][field.name])
    for term in form.never:
        yield f"  if ({_term(term)} != 0) return 0;"
    for reach in form.reaches:
        yield from _reach(table, form, reach)
    for keep in form.keeps:
        _, count = table.banks[keep.register]
        bank = list(table.banks).index(keep.register)
        yield f"  if ({_term(keep.index)} >= {count}u) return 0;"
        yield f"  kept[{bank}][{_term(keep.index)}] = i.{keep.field};"
    if meant:
        yield f"  {function_name(table, form)}(state, &i);"
        yield "  if (state->fault != 0) return 0;"
    work = [f"{form.cycles}", *(_cycles(term, each) for term, each in form.per)]
    units = [units_in_order(table).index(unit) for unit in form.units]
    unit = f"{units[0]}u"
    if isinstance(form.unit, UnitBy):
        yield f"  static const unsigned units[] = {{{', '.join(f'{k}u' for k in units)}}};"
        unit = f"units[i.{form.unit.field}]"
    yield f"  count_time(clock, {unit}, {' + '.join(work)}, &t);"
    yield "  return 1;"
    yield "}"


def _field(field: Bits, at: int) -> Iterator[str]:
    value, name = f"bits(insn, {at}u, {field.width}u)", f"i.{field.name}"
    if field.address:
        yield f"  {name} = times({value}, {1 << field.shift}u);"
        return
    yield f"  {name} = {f'with_sign({value}, {field.width}u)' if field.signed else value};"
    whole = Bits("", field.width, signed=field.signed)
    suffix = "" if field.signed else "u"
    if field.lowest > whole.lowest:
        yield f"  if ({name} < {field.lowest}{suffix}) return 0;"
    if field.highest < whole.highest:
        yield f"  if ({name} > {field.highest}{suffix}) return 0;"


def _reach(table: InstructionTable, form: InstructionForm, reach: Reach) -> Iterator[str]:
    memories = {DRAM: 0, **{memory.name: k for k, memory in enumerate(table.memories, 1)}}
    rows = 0 if reach.memory == DRAM else table.by_memory[reach.memory].rows
    loops = [f"{{{_term(count)}, {_term(stride)}}}" for count, stride in reach.loops]
    yield "  {"
    yield f"    uint64_t loops[][2] = {{{', '.join(loops or ['{0, 0}'])}}};"
    if reach.first in table.banks:
        _, count = table.banks[str(reach.first)]
        yield f"    const uint64_t index = {_term(reach.index)};"
        yield f"    if (index >= {count}u) return 0;"
        first = f"kept[{list(table.banks).index(str(reach.first))}][index]"
    else:
        first = _term(reach.first)
    where = f"{memories[reach.memory]}u, {rows}u, {int(reach.writes)}"
    first = f"plus({first}, {_term(reach.offset)})"
    what = f"{where}, {first}, {_term(reach.extent)}, loops, {len(reach.loops)}u"
    yield f"    if (!reach(state, clock, &t, {what})) return 0;"
    yield "  }"


def _term(term: Term) -> str:
    product = ""
    for factor in factors(term):
        one = _sum(factor.sum) if factor.other is None else _comparison(factor, factor.other)
        product = f"times({product}, {one})" if product else one
    return product


def _comparison(factor: Factor, other: Sum) -> str:
    """Sums of a comparison stay far below 2^63: fields have 32 bits there."""
    left, right = (
        " + ".join([f"{one.number}", *(f"(int64_t)i.{name}" for name in one.fields)])
        for one in (factor.sum, other)
    )
    return f"(uint64_t)({left} {'<' if factor.below else '=='} {right})"


def _sum(one: Sum) -> str:
    found = f"i.{one.fields[0]}" if one.fields else f"UINT64_C({one.number})"
    for name in one.fields[1:]:
        found = f"plus({found}, i.{name})"
    return f"plus({found}, {one.number}u)" if one.fields and one.number else found


def _cycles(term: Term, each: int | Fraction) -> str:
    exact = Fraction(each)
    product = f"times({_term(term)}, {exact.numerator}u)"
    return f"(int64_t)(plus({product}, {exact.denominator - 1}u) / {exact.denominator}u)"
