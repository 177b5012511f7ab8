/* Implementation of words.h: a text is divided as the regular expression
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * does it; in each part pairs of words are joined, the pair of the lowest rank first.
 *
 * In:   a table, which is hostile until words_open has checked it; a text, which is hostile.
 * Out:  tokens.
 * Next: letter_classes.h says what a letter is.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <string.h>

#include "letter_classes.h"

enum { MAGIC = 0x5753444C, HEADER_WORDS = 8, BYTES = 256, MERGE_WORDS = 4 }; /* "LDSW" */

static uint32_t at(const uint8_t *table, uint32_t index) { return words_u32(table + (size_t)index * 4u); }

/* --- the table ---------------------------------------------------------------------------------------------------------------- */
static int all_below(const uint8_t *table, uint32_t count, uint32_t limit, int or_none) {
  uint32_t k;
  for (k = 0; k < count; ++k) {
    if (at(table, k) >= limit && !(or_none && at(table, k) == WORDS_NONE)) return 0;
  }
  return 1;
}

static int merges_are_sound(const words *w) {
  uint32_t k;
  for (k = 0; k < w->merge_count; ++k) {
    const uint8_t *m = w->merges + (size_t)k * MERGE_WORDS * 4u, *last = m - MERGE_WORDS * 4u;
    if (at(m, 0) >= w->count || at(m, 1) >= w->count || at(m, 2) == WORDS_NONE || at(m, 3) >= w->count) return 0;
    if (k > 0 && !(at(last, 0) < at(m, 0) || (at(last, 0) == at(m, 0) && at(last, 1) < at(m, 1)))) return 0;
  }
  return 1;
}

static int words_are_sound(const words *w, size_t bytes) {
  uint32_t k;
  if (at(w->first, 0) != 0 || at(w->first, w->count) != bytes) return 0;
  for (k = 0; k < w->count; ++k) {
    if (at(w->first, k + 1) < at(w->first, k)) return 0;
  }
  for (k = 0; k < w->whole_count; ++k) { /* an empty one would be found for ever */
    if (at(w->first, at(w->whole, k)) == at(w->first, at(w->whole, k) + 1u)) return 0;
  }
  return 1;
}

/* Takes count * size bytes from the front; NULL where they are not there. */
static const uint8_t *take(const uint8_t **bytes, size_t *left, uint32_t count, size_t size) {
  const uint8_t *begin = *bytes;
  if (*left / size < count) return NULL;
  *bytes += count * size;
  *left -= count * size;
  return begin;
}

int words_open(words *w, const uint8_t *bytes, size_t size) {
  const uint8_t *head = take(&bytes, &size, HEADER_WORDS, 4);
  if (head == NULL || at(head, 0) != MAGIC) return 0;
  w->count = at(head, 1);
  w->end_count = at(head, 2);
  w->whole_count = at(head, 3);
  w->merge_count = at(head, 4);
  w->begin = at(head, 5);
  w->digits = at(head, 6);
  w->model = at(head, 7);
  if (w->count == 0 || w->count > INT32_MAX || w->digits > 1 || (w->begin >= w->count && w->begin != WORDS_NONE)) return 0;
  w->of_byte = take(&bytes, &size, BYTES, 4);
  if (w->of_byte == NULL || (w->ends = take(&bytes, &size, w->end_count, 4)) == NULL) return 0;
  if ((w->whole = take(&bytes, &size, w->whole_count, 4)) == NULL) return 0;
  if ((w->merges = take(&bytes, &size, w->merge_count, 4u * MERGE_WORDS)) == NULL) return 0;
  if ((w->first = take(&bytes, &size, w->count + 1u, 4)) == NULL) return 0;
  if ((w->hidden = take(&bytes, &size, w->count, 1)) == NULL) return 0;
  w->bytes = bytes;
  return all_below(w->of_byte, BYTES, w->count, 1) && all_below(w->ends, w->end_count, w->count, 0) &&
         all_below(w->whole, w->whole_count, w->count, 0) && merges_are_sound(w) && words_are_sound(w, size);
}

const uint8_t *words_bytes(const words *w, int32_t token, size_t *size) {
  const uint32_t k = (uint32_t)token;
  *size = 0;
  if (token < 0 || k >= w->count || w->hidden[k]) return w->bytes;
  *size = at(w->first, k + 1u) - at(w->first, k);
  return w->bytes + at(w->first, k);
}

int words_is_end(const words *w, int32_t token) {
  uint32_t k;
  for (k = 0; k < w->end_count; ++k) {
    if (at(w->ends, k) == (uint32_t)token) return 1;
  }
  return 0;
}

/* --- letters ------------------------------------------------------------------------------------------------------------------ */
typedef struct letter {
  uint32_t code;
  size_t size; /* 0: no UTF-8 */
} letter;

/* The letter at a place of a text. */
static letter letter_at(const uint8_t *p, size_t left) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  letter l = {p[0], 1};
  size_t k;
  if (p[0] < 0x80) return l;
  l.size = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  l.code = p[0] & (0x7Fu >> l.size);
  if (p[0] < 0xC0 || p[0] > 0xF7 || l.size > left) l.size = 0;
  for (k = 1; k < l.size; ++k) {
    l.code = l.code << 6 | (p[k] & 0x3Fu);
    if ((p[k] & 0xC0u) != 0x80u) l.size = 0;
  }
  if (l.code > 0x10FFFF || (l.code >= 0xD800 && l.code < 0xE000) || l.code < least[l.size]) l.size = 0;
  return l;
}

static int is_utf8(const uint8_t *text, size_t size) {
  size_t k = 0;
  while (k < size) {
    const letter l = letter_at(text + k, size - k);
    if (l.size == 0) return 0;
    k += l.size;
  }
  return 1;
}

/* Whether a letter is in one of the ranges, which are in order. */
static int is_in(const uint32_t (*ranges)[2], size_t count, uint32_t code) {
  size_t low = 0;
  while (count > 0) {
    const size_t half = count / 2u;
    if (code > ranges[low + half][1]) {
      low += half + 1u;
      count -= half + 1u;
    } else if (code < ranges[low + half][0]) {
      count = half;
    } else {
      return 1;
    }
  }
  return 0;
}

#define IS_IN(ranges, code) is_in(ranges, sizeof(ranges) / sizeof(ranges)[0], code)

enum { LETTER, NUMBER, SPACE, OTHER };

static int class_of(uint32_t code) {
  if (IS_IN(class_letters, code)) return LETTER;
  if (IS_IN(class_numbers, code)) return NUMBER;
  return IS_IN(class_spaces, code) ? SPACE : OTHER;
}

static int is_digit(uint32_t code) { return IS_IN(class_numbers, code) || IS_IN(class_digits_besides, code); }

/* --- what divides a text ------------------------------------------------------------------------------------------------------- */
/* Bytes of letters of a class from the begin of a text on. */
static size_t run_of(int class, const uint8_t *text, size_t size) {
  size_t k = 0;
  while (k < size) {
    const letter l = letter_at(text + k, size - k);
    if (class_of(l.code) != class) break;
    k += l.size;
  }
  return k;
}

static size_t short_form(const uint8_t *text, size_t size) {
  static const char forms[][4] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  size_t k;
  for (k = 0; k < sizeof forms / sizeof forms[0]; ++k) {
    const size_t length = strlen(forms[k]);
    if (length <= size && memcmp(text, forms[k], length) == 0) return length;
  }
  return 0;
}

/* Bytes of the first part of a text that is not empty. */
static size_t part_of(const uint8_t *text, size_t size) {
  const size_t space = text[0] == ' ', form = short_form(text, size);
  size_t run, k;
  int class;
  if (form != 0) return form;
  if (space < size) {
    class = class_of(letter_at(text + space, size - space).code);
    if (class != SPACE) return space + run_of(class, text + space, size - space);
  }
  run = run_of(SPACE, text, size);
  if (run == size) return run;
  for (k = run - 1u; (text[k] & 0xC0u) == 0x80u; --k) continue; /* the last space belongs to what follows */
  return k != 0 ? k : run;
}

/* --- pairs -------------------------------------------------------------------------------------------------------------------- */
/* The merge of two words, by its number; WORDS_NONE where they stay apart. */
static uint32_t merge_of(const words *w, int32_t left, int32_t right) {
  uint32_t low = 0, count = w->merge_count;
  while (count > 0) {
    const uint32_t half = count / 2u;
    const uint8_t *m = w->merges + (size_t)(low + half) * MERGE_WORDS * 4u;
    const uint32_t l = at(m, 0), r = at(m, 1);
    if (l == (uint32_t)left && r == (uint32_t)right) return low + half;
    if (l < (uint32_t)left || (l == (uint32_t)left && r < (uint32_t)right)) {
      low += half + 1u;
      count -= half + 1u;
    } else {
      count = half;
    }
  }
  return WORDS_NONE;
}

static uint32_t of_merge(const words *w, uint32_t merge, uint32_t field) { return at(w->merges + (size_t)merge * MERGE_WORDS * 4u, field); }

/* The words of one part; merge[k]: of words k and k + 1. */
static size_t join(const words *w, const uint8_t *text, size_t size, int32_t *tokens, uint32_t *merge) {
  size_t count = 0, k;
  for (k = 0; k < size; ++k) { /* the library omits a byte that is no word, too */
    if (at(w->of_byte, text[k]) != WORDS_NONE) tokens[count++] = (int32_t)at(w->of_byte, text[k]);
  }
  for (k = 1; k < count; ++k) merge[k - 1u] = merge_of(w, tokens[k - 1u], tokens[k]);
  for (;;) {
    size_t best = 0;
    uint32_t rank = WORDS_NONE;
    for (k = 1; k < count; ++k) {
      if (merge[k - 1u] != WORDS_NONE && of_merge(w, merge[k - 1u], 2) < rank) {
        rank = of_merge(w, merge[k - 1u], 2);
        best = k - 1u;
      }
    }
    if (rank == WORDS_NONE) return count;
    tokens[best] = (int32_t)of_merge(w, merge[best], 3);
    memmove(tokens + best + 1u, tokens + best + 2u, (count - best - 2u) * sizeof *tokens);
    if (count - best > 2u) memmove(merge + best, merge + best + 1u, (count - best - 2u) * sizeof *merge);
    --count;
    if (best > 0) merge[best - 1u] = merge_of(w, tokens[best - 1u], tokens[best]);
    if (best + 1u < count) merge[best] = merge_of(w, tokens[best], tokens[best + 1u]);
  }
}

/* The words of a text that holds no digit where these are divided from all else. */
static size_t divide(const words *w, const uint8_t *text, size_t size, int32_t *tokens, uint32_t *scratch) {
  size_t count = 0, k = 0;
  while (k < size) {
    const size_t part = part_of(text + k, size - k);
    count += join(w, text + k, part, tokens + count, scratch);
    k += part;
  }
  return count;
}

/* The words of a text that holds no whole word. */
static size_t divide_digits(const words *w, const uint8_t *text, size_t size, int32_t *tokens, uint32_t *scratch) {
  size_t count = 0, begin = 0, k = 0;
  if (!w->digits) return divide(w, text, size, tokens, scratch);
  while (k < size) {
    const letter l = letter_at(text + k, size - k);
    if (is_digit(l.code)) {
      count += divide(w, text + begin, k - begin, tokens + count, scratch);
      count += divide(w, text + k, l.size, tokens + count, scratch);
      begin = k + l.size;
    }
    k += l.size;
  }
  return count + divide(w, text + begin, size - begin, tokens + count, scratch);
}

/* The longest whole word at the begin of a text; WORDS_NONE: there is none. */
static uint32_t whole_at(const words *w, const uint8_t *text, size_t left, size_t *size) {
  uint32_t k;
  for (k = 0; k < w->whole_count; ++k) {
    const uint32_t word = at(w->whole, k), first = at(w->first, word);
    *size = at(w->first, word + 1u) - first;
    if (*size <= left && memcmp(text, w->bytes + first, *size) == 0) return word;
  }
  return WORDS_NONE;
}

size_t words_tokens(const words *w, const uint8_t *text, size_t size, int32_t *tokens, uint32_t *scratch) {
  size_t count = 0, begin = 0, k = 0, length = 0;
  if (!is_utf8(text, size)) return WORDS_BAD_TEXT;
  if (w->begin != WORDS_NONE) tokens[count++] = (int32_t)w->begin;
  while (k < size) {
    const uint32_t word = whole_at(w, text + k, size - k, &length);
    if (word == WORDS_NONE) {
      ++k;
      continue;
    }
    count += divide_digits(w, text + begin, k - begin, tokens + count, scratch);
    tokens[count++] = (int32_t)word;
    begin = k += length;
  }
  return count + divide_digits(w, text + begin, size - begin, tokens + count, scratch);
}
