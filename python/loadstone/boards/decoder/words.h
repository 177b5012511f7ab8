/* Tokens of a text, and the text of tokens, by a table: byte-level pairs, as GPT-2 and SmolLM divide a text.
 *
 * In:   the bytes of words.bin, which `loadstone export` makes of the words beside an artifact; a text in UTF-8.
 * Out:  the numbers that the library tokenizers gives for it; bytes of each number.
 * Next: decode.c runs them. Nothing here allocates; the table may be in read-only memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of scratch memory that a text of so many bytes needs. */
#define WORDS_SCRATCH_BYTES(size) ((size_t)(size) * sizeof(uint32_t))

typedef struct words {
  const uint8_t *of_byte; /* u32[256]: the word of a single byte; WORDS_NONE: none */
  const uint8_t *ends;    /* u32[end_count]: words behind which a text ends */
  const uint8_t *whole;   /* u32[whole_count]: words that are looked for before a text is divided, the longest first */
  const uint8_t *merges;  /* u32[4][merge_count] by left and right: left, right, rank, the word that they become */
  const uint8_t *hidden;  /* u8[count]: 1 for words that are no text */
  const uint8_t *first;   /* u32[count + 1]: where a word's bytes begin */
  const uint8_t *bytes;
  uint32_t count, end_count, whole_count, merge_count;
  uint32_t begin;  /* the word in front of every text; WORDS_NONE: none */
  uint32_t digits; /* 1: each digit is divided from all else */
  uint32_t model;  /* the checksum in the header of the artifact that they belong to */
} words;

#define WORDS_NONE UINT32_MAX

static inline uint32_t words_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 0 where these bytes are no sound table; it points into them. */
int words_open(words *w, const uint8_t *bytes, size_t size);

/* Tokens of a text, at most size + 1; WORDS_BAD_TEXT for one that is no UTF-8. scratch: WORDS_SCRATCH_BYTES of its size. */
#define WORDS_BAD_TEXT SIZE_MAX
size_t words_tokens(const words *w, const uint8_t *text, size_t size, int32_t *tokens, uint32_t *scratch);

/* The bytes of a token, which need not be whole letters; none for one that is no text. */
const uint8_t *words_bytes(const words *w, int32_t token, size_t *size);

/* Whether a text ends with this token. */
int words_is_end(const words *w, int32_t token);

#endif /* WORDS_H */
