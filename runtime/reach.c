/* What one instruction of a table touches: terms, places, and the words that instructions reach through.
 *
 * In:   an instruction whose fields and relocations are known; the instructions before it, as far as they set registers and words.
 * Out:  LDS_OK, or why the instruction may not touch what it says it touches.
 * Next: program.c walks a program with it.
 *
 * Where an instruction goes through words is known because these are copied from constants alone. All arithmetic is in 64 bits, and
 * stops where a limit is exceeded.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"

#include "sizes.h"

/* --- terms ------------------------------------------------------------------------------------------------------------------- */
static uint64_t summand(const lds_insn_seen *seen, const lds_insn_summand *s) {
  return (s->field == LDS_NO_FIELD ? 0 : seen->value[s->field]) + s->plus;
}

/* One factor from summand *at on, which moves behind it. A sum has no more than 32 fields of 32 bits. */
static uint64_t factor(const lds_insn_seen *seen, const lds_insn_term *t, uint32_t *at) {
  const lds_insn_summand *s = &seen->form->summands[t->value];
  uint64_t sum = summand(seen, &s[*at]), left = 0;
  uint32_t relation = LDS_JOIN_TIMES;
  for (; s[*at].join != LDS_JOIN_TIMES; ++*at) {
    if (s[*at].join != LDS_JOIN_PLUS) {
      relation = s[*at].join;
      left = sum;
      sum = 0;
    }
    sum += summand(seen, &s[*at + 1u]);
  }
  ++*at;
  if (relation == LDS_JOIN_TIMES) return sum;
  return relation == LDS_JOIN_EQUAL ? left == sum : (left ^ (uint64_t)1 << 63) < (sum ^ (uint64_t)1 << 63);
}

uint64_t lds_insn_term_value(const lds_insn_seen *seen, const lds_insn_term *t) {
  uint64_t value = 1;
  uint32_t k = 0;
  if (t->summands == 0) return t->value;
  if (t->summands == 1) return seen->value[t->value];
  while (k < t->summands) {
    const uint64_t one = factor(seen, t, &k);
    if (one == 0) return 0;
    value = value > UINT32_MAX || one > UINT32_MAX ? UINT64_MAX : value * one;
  }
  return value;
}

/* --- places ------------------------------------------------------------------------------------------------------------------ */
/* Places from the first on, or UINT64_MAX for more than 2^32, or 0 for none. */
static uint64_t extent_of(const lds_insn_seen *seen, const lds_insn_reach *reach) {
  uint64_t extent = lds_insn_term_value(seen, &reach->extent);
  uint32_t k;
  if (extent == 0) return 0;
  if (extent > UINT32_MAX) extent = UINT64_MAX;
  for (k = 0; k < reach->loops; ++k) {
    const uint64_t count = lds_insn_term_value(seen, &reach->count[k]);
    uint64_t stride;
    if (count == 0) return 0;
    stride = lds_insn_term_value(seen, &reach->stride[k]);
    if (count > UINT32_MAX || stride > UINT32_MAX || (count - 1u) * stride > UINT32_MAX) {
      extent = UINT64_MAX;
    } else if (extent != UINT64_MAX) {
      extent += (count - 1u) * stride;
    }
  }
  return extent;
}

/* Places [first, first + extent) are among `places`. */
static int inside(uint64_t first, uint64_t extent, uint64_t places) { return extent <= places && first <= places - extent; }

/* The region where a reach of DRAM begins, and the byte in it; UINT32_MAX: none. */
static uint32_t dram_begin(const lds_insn_seen *seen, const lds_insn_reach *reach, uint64_t *first) {
  uint32_t number;
  *first = lds_insn_term_value(seen, &reach->first);
  if (reach->bank == 0) return seen->region[reach->first.value];
  if (*first >= reach->bank_size) return UINT32_MAX;
  number = reach->bank - 1u + (uint32_t)*first;
  *first = seen->kept[number];
  return seen->kept_region[number];
}

static int check_dram(const lds_insn_seen *seen, const lds_insn_reach *reach, uint64_t offset, uint64_t extent) {
  const uint32_t needed = reach->writes != 0 ? LDS_DMA_DEVICE_WRITES : LDS_DMA_DEVICE_READS;
  uint64_t first;
  uint32_t region;
  if (reach->bank != 0 && lds_insn_term_value(seen, &reach->first) >= reach->bank_size) return LDS_ERR_INSTRUCTION;
  region = dram_begin(seen, reach, &first);
  if (region >= LDS_REGIONS || (seen->region_flags[region] & needed) == 0) return LDS_ERR_DRAM;
  return inside(first + offset, extent, seen->region_size_bytes[region]) ? LDS_OK : LDS_ERR_DRAM;
}

/* --- words ------------------------------------------------------------------------------------------------------------------- */
/* Of memory `number`, the place of its first word among all; memories without words have none. */
static uint32_t first_word(const lds_insn_table *table, uint32_t number) {
  uint32_t first = 0, k;
  for (k = 0; k + 1u < number; ++k) first += table->word_bytes[k] != 0 ? table->memory_rows[k] : 0;
  return first;
}

static size_t word_count(const lds_insn_table *table) {
  size_t count = 0;
  uint32_t k;
  for (k = 0; k < table->memory_count; ++k) {
    if (table->word_bytes[k] != 0) count = lds_size_sum(count, table->memory_rows[k]);
  }
  return count;
}

size_t lds_insn_words_bytes(const lds_insn_table *table) {
  const size_t count = word_count(table);
  return count > SIZE_MAX / (sizeof(uint32_t) + 1u) ? SIZE_MAX : count * (sizeof(uint32_t) + 1u);
}

int lds_insn_words_begin(const lds_insn_table *table, const uint8_t *const *constants, void *scratch, size_t scratch_bytes,
                         lds_insn_words *words) {
  const size_t count = word_count(table);
  lds_memory memory = {scratch, scratch_bytes};
  memset(words, 0, sizeof *words);
  words->constants = constants;
  if (count == 0) return LDS_OK;
  words->word = (uint32_t *)(void *)lds_piece(&memory, lds_insn_words_bytes(table), sizeof(uint32_t));
  if (words->word == NULL) return LDS_ERR_MEMORY;
  words->loaded = (uint8_t *)(words->word + count);
  memset(words->loaded, 0, count);
  return LDS_OK;
}

/* The largest first place of a reach through words; LDS_ERR_UOP where one of them was not loaded. */
static int word_limits(const lds_insn_table *table, const lds_insn_seen *seen, const lds_insn_reach *reach, const lds_insn_words *words,
                       uint64_t *most) {
  const uint64_t begin = lds_insn_term_value(seen, &reach->word_begin), end = lds_insn_term_value(seen, &reach->word_end);
  const uint32_t base = first_word(table, reach->words), mask = UINT32_MAX >> (32u - reach->word_width);
  uint64_t k;
  *most = 0;
  if (end > table->memory_rows[reach->words - 1u]) return LDS_ERR_UOP;
  for (k = begin; k < end; ++k) {
    const uint32_t value = words->word[base + k] >> reach->word_bit & mask;
    if (words->loaded[base + k] == 0) return LDS_ERR_UOP;
    if (value > *most) *most = value;
  }
  return LDS_OK;
}

int lds_insn_check_reach(const lds_insn_table *table, const lds_insn_seen *seen, const lds_insn_reach *reach, const lds_insn_words *words) {
  const uint64_t extent = extent_of(seen, reach), offset = lds_insn_term_value(seen, &reach->offset);
  uint64_t first;
  if (extent == 0) return LDS_OK;
  if (reach->words != 0) {
    int status;
    if (lds_insn_term_value(seen, &reach->word_begin) >= lds_insn_term_value(seen, &reach->word_end)) return LDS_OK;
    status = word_limits(table, seen, reach, words, &first);
    if (status != LDS_OK) return status;
  } else if (reach->memory == 0) {
    return offset > UINT32_MAX ? LDS_ERR_DRAM : check_dram(seen, reach, offset, extent);
  } else {
    first = lds_insn_term_value(seen, &reach->first);
  }
  if (offset > UINT32_MAX || first > UINT32_MAX) return LDS_ERR_SRAM;
  return inside(first + offset, extent, table->memory_rows[reach->memory - 1u]) ? LDS_OK : LDS_ERR_SRAM;
}

/* Places of all turns together, those that it has twice counted twice; above UINT32_MAX only that they are more. */
static uint64_t places_of(const lds_insn_seen *seen, const lds_insn_reach *reach) {
  uint64_t places = lds_insn_term_value(seen, &reach->extent);
  uint32_t k;
  for (k = 0; k < reach->loops; ++k) {
    const uint64_t count = lds_insn_term_value(seen, &reach->count[k]);
    if (count == 0) return 0;
    places = places > UINT32_MAX || count > UINT32_MAX ? UINT64_MAX : places * count;
  }
  return places;
}

/* Places from the first turn to another one, the last loop being the innermost. */
static uint64_t turn_offset(const lds_insn_seen *seen, const lds_insn_reach *reach, uint64_t turn) {
  uint64_t offset = 0;
  uint32_t k = reach->loops;
  while (k-- > 0) {
    const uint64_t count = lds_insn_term_value(seen, &reach->count[k]);
    offset += turn % count * lds_insn_term_value(seen, &reach->stride[k]);
    turn /= count;
  }
  return offset;
}

/* Words on their way into a memory, byte by byte. first: the place of its row 0 and of the reach's first among all words. */
typedef struct filling {
  const lds_insn_seen *seen;
  const lds_insn_reach *reach;
  lds_insn_words *words;
  uint64_t first, extent, count, at;
  uint32_t word, bytes, word_bytes;
} filling;

static void put_byte(filling *f, uint8_t byte) {
  f->word |= (uint32_t)byte << 8u * f->bytes;
  if (++f->bytes < f->word_bytes) return;
  if (f->count % f->extent == 0) f->at = f->first + turn_offset(f->seen, f->reach, f->count / f->extent);
  f->words->word[f->at] = f->word;
  f->words->loaded[f->at++] = 1;
  ++f->count;
  f->word = f->bytes = 0;
}

/* Feeds the bytes of a reach of DRAM, which was checked. */
static int copy_from(filling *f, const lds_insn_reach *reach) {
  const uint64_t extent = lds_insn_term_value(f->seen, &reach->extent), turns = places_of(f->seen, reach) / extent;
  const uint8_t *from;
  uint64_t first, turn, k;
  const uint32_t region = dram_begin(f->seen, reach, &first);
  if (f->words->constants[region] == NULL) return LDS_ERR_UOP;
  from = f->words->constants[region] + first + lds_insn_term_value(f->seen, &reach->offset);
  for (turn = 0; turn < turns; ++turn) {
    const uint64_t begin = turn_offset(f->seen, reach, turn);
    for (k = 0; k < extent; ++k) put_byte(f, from[begin + k]);
  }
  return LDS_OK;
}

static int is_source(const lds_insn_seen *seen, const lds_insn_reach *reach) {
  return reach->memory == 0 && reach->writes == 0 && places_of(seen, reach) != 0;
}

static int fill(const lds_insn_table *table, const lds_insn_seen *seen, const lds_insn_reach *reach, lds_insn_words *words) {
  const uint32_t rows = table->memory_rows[reach->memory - 1u];
  const uint64_t count = places_of(seen, reach);
  filling f = {seen, reach, words, 0, 0, 0, 0, 0, 0, 0};
  uint64_t size = 0;
  uint32_t k;
  f.word_bytes = table->word_bytes[reach->memory - 1u];
  f.extent = lds_insn_term_value(seen, &reach->extent);
  f.first = first_word(table, reach->memory) + lds_insn_term_value(seen, &reach->first) + lds_insn_term_value(seen, &reach->offset);
  for (k = 0; k < seen->form->reach_count; ++k) {
    const uint64_t source = is_source(seen, &seen->form->reaches[k]) ? places_of(seen, &seen->form->reaches[k]) : 0;
    if (source > UINT32_MAX) return LDS_ERR_INSTRUCTION; /* so that the sum of all does not wrap */
    size += source;
  }
  if (count > rows || size != count * f.word_bytes) return LDS_ERR_INSTRUCTION;
  for (k = 0; k < seen->form->reach_count; ++k) {
    if (is_source(seen, &seen->form->reaches[k])) {
      const int status = copy_from(&f, &seen->form->reaches[k]);
      if (status != LDS_OK) return status;
    }
  }
  return LDS_OK;
}

int lds_insn_keep_words(const lds_insn_table *table, const lds_insn_seen *seen, lds_insn_words *words) {
  uint32_t k;
  for (k = 0; k < seen->form->reach_count; ++k) {
    const lds_insn_reach *reach = &seen->form->reaches[k];
    if (reach->memory != 0 && reach->writes != 0 && table->word_bytes[reach->memory - 1u] != 0 && places_of(seen, reach) != 0) {
      const int status = fill(table, seen, reach, words);
      if (status != LDS_OK) return status;
    }
  }
  return LDS_OK;
}
