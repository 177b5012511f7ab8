/* An accelerator that is not VTA: its instruction set as a table, and how a session reaches it.
 *
 * In:   the table that `loadstone.isa.c_table` writes from a plug-in's Python.
 * Out:  structs; runtime/program.c checks programs against a table, runtime/accelerator.c places them in memory.
 * Next: a port puts one lds_accelerator for each device that the artifact names into lds_session_config.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ACCELERATOR_H
#define LDS_ACCELERATOR_H

#ifndef LDS_CDEF
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_INSN_MAX_BYTES = 64,
  LDS_INSN_MAX_FIELDS = 32,
  LDS_INSN_LOOPS = 3,
  LDS_INSN_KEPT = 16,
  LDS_NO_FIELD = 255,
  LDS_FINGERPRINT_BYTES = 32
};

/* lds_insn_field.flags */
enum { LDS_FIELD_SIGNED = 1, LDS_FIELD_ADDRESS = 2 };

/* Bits [bit, bit + width) of an instruction, bit k being bit k % 8 of byte k / 8. low and high are included; of a field with a sign both
 * are in two's complement. An address counts 1 << shift bytes, and is what relocations fill in. */
typedef struct lds_insn_field {
  uint16_t bit;
  uint8_t width, flags, shift;
  uint64_t low, high;
} lds_insn_field;

/* One factor of a term: the value of a field of the same instruction, or LDS_NO_FIELD, and a number that is added. */
typedef struct lds_insn_factor {
  uint32_t field, plus;
} lds_insn_factor;

/* factors 0: a number. 1: `value` is the number of a field. n: the product of the form's factors from number `value` on. */
typedef struct lds_insn_term {
  uint32_t value;
  uint32_t factors;
} lds_insn_term;

/* What an instruction touches of a memory: `extent` places from first + offset + sum of turn * stride on, for all turns below count.
 * Memory 0 is DRAM, whose places are bytes; others are the device's own, counted in rows. bank 0: DRAM begins at the address field that
 * `first` is. Else at what address register bank - 1 + first holds, `first` being below bank_size. */
typedef struct lds_insn_reach {
  uint8_t memory, writes, loops, bank, bank_size;
  lds_insn_term first, offset, extent, count[LDS_INSN_LOOPS], stride[LDS_INSN_LOOPS];
} lds_insn_reach;

/* The instruction sets address register bank - 1 + index, index being below bank_size, to an address field. */
typedef struct lds_insn_keep {
  uint8_t bank, bank_size, field;
  lds_insn_term index;
} lds_insn_keep;

typedef struct lds_insn_form {
  uint32_t opcode;
  uint16_t size_bytes;
  uint8_t field_count, reach_count, keep_count;
  const lds_insn_field *fields;
  const lds_insn_reach *reaches;
  const lds_insn_factor *factors;
  const lds_insn_keep *keeps;
} lds_insn_form;

typedef struct lds_insn_table {
  const char *name;
  uint8_t fingerprint[LDS_FINGERPRINT_BYTES];
  uint32_t opcode_bits, form_count, memory_count; /* memories: of the device's own */
  const lds_insn_form *forms;
  const uint32_t *memory_rows; /* of memory 1, 2 ... */
} lds_insn_table;

/* One instruction on its way through the validator. value: of each field; region: of each address field that has a relocation, else
 * UINT32_MAX, and then `value` is its offset in bytes from the region's first. kept: of each address register, likewise. */
typedef struct lds_insn_seen {
  const lds_insn_form *form;
  uint64_t value[LDS_INSN_MAX_FIELDS];
  uint32_t region[LDS_INSN_MAX_FIELDS];
  uint64_t kept[LDS_INSN_KEPT];
  uint32_t kept_region[LDS_INSN_KEPT];
  uint32_t region_size_bytes[8], region_flags[8]; /* LDS_DMA_*; regions that are not there have size 0 */
} lds_insn_seen;

struct lds_device;

/* A device that the artifact names besides device 0. */
typedef struct lds_accelerator {
  const char *name; /* as the artifact calls it */
  struct lds_device *device;
  const lds_insn_table *table; /* NULL: a VTA, validated as device 0 */
  /* What the table cannot say: not 0 refuses the instruction. NULL: nothing more. */
  int (*refuse)(const lds_insn_seen *seen);
} lds_accelerator;

#ifdef __cplusplus
}
#endif

#endif /* LDS_ACCELERATOR_H */
