/* What one instruction of a table touches, and whether it is there. Private to runtime/.
 *
 * In:   an instruction on its way through the validator; memory for the words that instructions reach through.
 * Out:  values of terms; LDS_OK, or why a reach is refused.
 * Next: program.c walks a program with it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_REACH_H
#define LDS_REACH_H

#include "lds_accelerator.h"
#include "program.h"

/* The words of all memories that instructions reach through, one memory behind the other: each, and whether a constant was loaded there.
 * constants: by region, its bytes where no device changes them, else NULL. */
typedef struct lds_insn_words {
  const uint8_t *const *constants;
  uint32_t *word;
  uint8_t *loaded;
} lds_insn_words;

/* Bytes of the caller's memory that the words of a table take. */
size_t lds_insn_words_bytes(const lds_insn_table *table);
/* No word is loaded yet. LDS_ERR_MEMORY where `scratch` is too small. */
int lds_insn_words_begin(const lds_insn_table *table, const uint8_t *const *constants, void *scratch, size_t scratch_bytes,
                         lds_insn_words *words);
/* What a term comes to in an instruction. Results above UINT32_MAX mean only that the limit is exceeded. */
uint64_t lds_insn_term_value(const lds_insn_seen *seen, const lds_insn_term *t);
/* A reach is of memory that is there, and that the instruction may so access. */
int lds_insn_check_reach(const lds_insn_table *table, const lds_insn_seen *seen, const lds_insn_reach *reach, const lds_insn_words *words);
/* Words that the instruction loads, whose reaches were checked, are known to those behind it. */
int lds_insn_keep_words(const lds_insn_table *table, const lds_insn_seen *seen, lds_insn_words *words);

#endif /* LDS_REACH_H */
