/* A program in an artifact. Private to runtime/.
 *
 * In:   a step of kind LDS_STEP_PROGRAM (FORMAT.md, Programs).
 * Out:  its record.
 * Next: session.c places it in memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_PROGRAM_H
#define LDS_PROGRAM_H

#include "format.h"
#include "sizes.h"

/* Words of a record before its relocations, of a relocation, of a layer. */
enum { LDS_PROGRAM_WORDS = 6, LDS_RELOCATION_WORDS = 5, LDS_LAYER_WORDS = 3 };
/* What a program begins at a multiple of, in its section and in a session's copy of that. */
enum { LDS_CODE_ALIGN = 64 };
/* Bit of the word that counts relocations: lds_program.beside. */
#define LDS_PROGRAM_BESIDE 0x80000000u

typedef struct lds_program {
  uint32_t device;                                             /* its number */
  uint32_t offset_bytes, size_bytes;                           /* of the instructions, in section code */
  uint32_t instructions;                                       /* how many */
  uint32_t beside;                                             /* 1: it may start while the programs directly before it work */
  uint32_t relocations, layers, relocation_count, layer_count; /* first words */
} lds_program;

/* A field that holds an address: bits [bit, bit + width) of the instruction at byte `at` become (bus address of the region + addend) >>
 * shift. */
typedef struct lds_relocation {
  uint32_t at, bit, width, shift, region, addend;
} lds_relocation;

/* Whether a step's record is, and its code begins at byte *code of the section or later; *code becomes the end of it. */
int lds_program_is_sound(const lds_model *model, uint32_t step, uint32_t *code);
/* The record of a program's step. */
void lds_program_at(const lds_model *model, uint32_t step, lds_program *out);
void lds_program_relocation(const lds_model *model, const lds_program *program, uint32_t index, lds_relocation *out);
/* Rule R23. */
int lds_relocations_are_sound(const lds_model *model, const lds_program *program);
/* The layer that an instruction is for; "" for none. */
const char *lds_program_layer(const lds_model *model, const lds_program *program, uint32_t instruction);
/* lds_program_validate of a program. */
int lds_table_validate(const lds_model *model, const lds_program *program, const lds_accelerator *accelerator, const uint8_t *code,
                       const uint8_t *const *constants, lds_memory scratch, lds_fault *fault);
/* Writes `value` into a field. */
void lds_put_bits(uint8_t *bytes, uint32_t bit, uint32_t width, uint64_t value);

#endif /* LDS_PROGRAM_H */
