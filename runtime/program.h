/* A program of an accelerator in an artifact. Private to runtime/.
 *
 * In:   a step of kind LDS_STEP_PROGRAM (FORMAT.md, Programs of other devices).
 * Out:  its record; whether its instructions may run.
 * Next: accelerator.c places it in memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_PROGRAM_H
#define LDS_PROGRAM_H

#include "format.h"

/* Words of a record before its relocations, of a relocation, of a layer. */
enum { LDS_PROGRAM_WORDS = 14, LDS_RELOCATION_WORDS = 5, LDS_LAYER_WORDS = 3 };
/* What a program begins at a multiple of, in its region and in a session's copy of that. */
enum { LDS_CODE_ALIGN = 64 };
/* Bit of the word that counts relocations: lds_program.beside. */
#define LDS_PROGRAM_BESIDE 0x80000000u
/* Of a VTA: what of a program's fingerprint is its configuration, the rest being zeros; the size of an instruction. */
enum { LDS_VTA_FINGERPRINT_BYTES = 20, LDS_VTA_INSN_BYTES = 16 };

typedef struct lds_program {
  const char *device;
  uint32_t fingerprint;                                        /* its first word */
  lds_tensor code;                                             /* uint8, in a region of constants that no device sees */
  uint32_t instructions;                                       /* how many */
  uint32_t beside;                                             /* 1: it may start while the programs directly before it work */
  uint32_t relocations, layers, relocation_count, layer_count; /* first words */
} lds_program;

/* A field that holds an address: bits [bit, bit + width) of the instruction at byte `at` become (bus address of the region + addend) >>
 * shift. */
typedef struct lds_relocation {
  uint32_t at, bit, width, shift, region, addend;
} lds_relocation;

/* The record of a step of a model whose programs are sound: lds_programs_check. */
void lds_program_at(const lds_model *model, uint32_t step, lds_program *out);
void lds_program_relocation(const lds_model *model, const lds_program *program, uint32_t index, lds_relocation *out);
/* Whether its device is a VTA. */
int lds_program_is_vta(const lds_model *model, const lds_program *program);
/* The layer that an instruction is for; "" for none. */
const char *lds_program_layer(const lds_model *model, const lds_program *program, uint32_t instruction);
/* Writes `value` into a field. */
void lds_put_bits(uint8_t *bytes, uint32_t bit, uint32_t width, uint64_t value);

#endif /* LDS_PROGRAM_H */
