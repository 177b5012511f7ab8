/* A further accelerator of an artifact: its instruction set as a table, and how a session reaches the device.
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
  LDS_INSN_REGISTERS = 32,
  LDS_INSN_LOOPS = 3,
  LDS_INSN_KEPT = 16,
  LDS_NO_FIELD = 255,
  LDS_NO_REGION = 255,
  LDS_FINGERPRINT_BYTES = 32
};

/* lds_insn_field.flags */
enum { LDS_FIELD_SIGNED = 1, LDS_FIELD_ADDRESS = 2 };
/* lds_insn_register.flags, besides LDS_FIELD_SIGNED */
enum { LDS_REGISTER_RESET = 4 };

/* Bits [bit, bit + width) of an instruction, where bit k is bit k % 8 of byte k / 8. The field's values are low to high, both included;
 * for a signed field both are in two's complement. An address field counts units of 1 << shift bytes; relocations fill it in. */
typedef struct lds_insn_field {
  uint16_t bit;
  uint8_t width, flags, shift;
  uint64_t low, high;
} lds_insn_field;

/* lds_insn_summand.join: how a summand continues with the next one. */
enum {
  LDS_JOIN_TIMES = 0, /* it ends a factor of a product */
  LDS_JOIN_PLUS = 1,
  LDS_JOIN_EQUAL = 2, /* 1 where what stands before it equals the sum behind it, else 0 */
  LDS_JOIN_LESS = 3   /* 1 where it is less than that, as numbers with a sign */
};

/* The value of a field of the same instruction, of register number field - LDS_INSN_MAX_FIELDS, or of none (LDS_NO_FIELD), and a number
 * that is added. */
typedef struct lds_insn_summand {
  uint8_t field, join;
  uint32_t plus;
} lds_insn_summand;

/* summands 0: a number. 1: `value` is the number of a field, or of a register as above. n: the product that the form's summands from number
 * `value` on say. */
typedef struct lds_insn_term {
  uint32_t value;
  uint32_t summands;
} lds_insn_term;

/* The part of a memory that an instruction accesses: `extent` places from first + offset + sum of (turn * stride) on, where the turn of
 * each loop takes every value below its count. A place is a byte of DRAM (memory 0), or a row of one of the device's own memories.
 * In DRAM `first` selects where the access starts. bank 0: at the address in that field. Otherwise: at the address in register
 * bank - 1 + first, where `first` must be below bank_size. words, not 0: the access is made once for each word in rows
 * [word_begin, word_end) of that memory, and the word's bits [word_bit, word_bit + word_width) take the place of `first`. */
typedef struct lds_insn_reach {
  uint8_t memory, writes, loops, bank, bank_size, words, word_bit, word_width;
  lds_insn_term first, offset, extent, count[LDS_INSN_LOOPS], stride[LDS_INSN_LOOPS];
  lds_insn_term word_begin, word_end;
} lds_insn_reach;

/* The instruction sets address register bank - 1 + index to the value of an address field; index must be below bank_size. */
typedef struct lds_insn_keep {
  uint8_t bank, bank_size, field;
  lds_insn_term index;
} lds_insn_keep;

/* Where `when` is not 0, the instruction sets a register to `value`: the value of a field, or of a term. */
typedef struct lds_insn_set {
  uint8_t number;
  lds_insn_term value, when;
} lds_insn_set;

/* Bits [bit, bit + width) of every instruction of a form. */
typedef struct lds_insn_code {
  uint16_t bit;
  uint8_t width;
  uint64_t value;
} lds_insn_code;

/* A number that the device keeps between instructions, with its limits, as those of a field. reset: what a program begins with, where
 * LDS_REGISTER_RESET is set; without it nothing, and an instruction that reads it before one has set it is refused. */
typedef struct lds_insn_register {
  uint64_t low, high, reset;
  uint8_t flags; /* LDS_FIELD_SIGNED, LDS_REGISTER_RESET */
} lds_insn_register;

/* never: terms that are 0 in every instruction there is. ends: it is the last of its program, and every program has one. reads: bit k of
 * register k that it reads. sets: all at once, from what registers held before. codes: what tells it from others of its opcode. */
typedef struct lds_insn_form {
  uint32_t opcode, reads;
  uint16_t size_bytes;
  uint8_t field_count, reach_count, keep_count, never_count, ends, set_count, code_count;
  const lds_insn_field *fields;
  const lds_insn_reach *reaches;
  const lds_insn_summand *summands;
  const lds_insn_keep *keeps;
  const lds_insn_term *never;
  const lds_insn_set *sets;
  const lds_insn_code *codes;
} lds_insn_form;

/* word_bytes: of a row of each memory that instructions reach through, else 0. region_bank: the first of region_count address registers
 * that begin a program set, number k to where region k begins, plus 1; 0: none do. */
typedef struct lds_insn_table {
  const char *name;
  uint8_t fingerprint[LDS_FINGERPRINT_BYTES];
  uint32_t opcode_bits, form_count, memory_count; /* memory_count: without DRAM */
  const lds_insn_form *forms;
  const uint32_t *memory_rows; /* of memory 1, 2 ... */
  const uint8_t *word_bytes;
  uint8_t region_bank, region_count;
  uint8_t opcode_bit, register_count; /* opcode_bit: where opcodes begin, in the first four bytes */
  const lds_insn_register *registers;
} lds_insn_table;

/* One instruction as the validator sees it, with the state of the registers before it. For an address field that has a
 * relocation, `region` is its region and `value` the offset in bytes from the region's start; for any other field `region` is
 * UINT32_MAX. `kept` and `kept_region` say the same of each address register; of one that is not set, the latter is LDS_NO_REGION.
 * Other registers stand in `value` behind the fields, and bit k of `registers_set` says whether register k is set. */
typedef struct lds_insn_seen {
  const lds_insn_form *form;
  uint64_t value[LDS_INSN_MAX_FIELDS + LDS_INSN_REGISTERS];
  uint32_t region[LDS_INSN_MAX_FIELDS];
  uint64_t kept[LDS_INSN_KEPT];
  uint8_t kept_region[LDS_INSN_KEPT]; /* LDS_NO_REGION: it is not set */
  uint32_t registers_set;
  uint32_t region_size_bytes[8], region_flags[8]; /* flags: LDS_DMA_*; a region that the model lacks has size 0 */
} lds_insn_seen;

struct lds_device;

/* A device that the artifact names besides device 0. */
typedef struct lds_accelerator {
  const char *name; /* the artifact's name for it */
  struct lds_device *device;
  const lds_insn_table *table; /* NULL: a VTA, validated like device 0 */
  /* Checks what the table cannot express; a result other than 0 refuses the instruction. NULL: there is no such check. */
  int (*refuse)(const lds_insn_seen *seen);
} lds_accelerator;

#ifdef __cplusplus
}
#endif

#endif /* LDS_ACCELERATOR_H */
