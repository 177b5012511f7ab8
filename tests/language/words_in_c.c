/* Tokens of texts by boards/decoder/words.c, for tests.
 *
 * In:   words.bin; on stdin texts, each behind its size in bytes as u32.
 * Out:  a line of numbers for each, or "bad"; behind a bar the bytes of these tokens, in hex.
 * Next: test_words_table.py compares.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "words.h"

int main(int argc, char **argv) {
  FILE *file = fopen(argv[argc - 1], "rb");
  static uint8_t table[1 << 24];
  const size_t table_bytes = fread(table, 1, sizeof table, file);
  uint8_t *exact = malloc(table_bytes), head[4];
  size_t k, j;
  words w;
  for (k = 0; k < table_bytes; ++k) exact[k] = table[k];
  if (!words_open(&w, exact, table_bytes)) {
    puts("no table");
    free(exact);
    return 0;
  }
  while (fread(head, 1, 4, stdin) == 4) {
    const size_t size = words_u32(head);
    uint8_t *text = malloc(size);
    uint32_t *scratch = malloc(WORDS_SCRATCH_BYTES(size));
    int32_t *tokens = malloc((size + 1) * sizeof *tokens);
    size_t count, bytes;
    if (fread(text, 1, size, stdin) != size) return 1;
    count = words_tokens(&w, text, size, tokens, scratch);
    if (count == WORDS_BAD_TEXT) {
      puts("bad");
    } else {
      for (k = 0; k < count; ++k) printf("%ld ", (long)tokens[k]);
      printf("|");
      for (k = 0; k < count; ++k) {
        const uint8_t *p = words_bytes(&w, tokens[k], &bytes);
        for (j = 0; j < bytes; ++j) printf("%02x", p[j]);
      }
      printf("|%d\n", count > 0 ? words_is_end(&w, tokens[count - 1]) : 0);
    }
    free(text);
    free(scratch);
    free(tokens);
  }
  free(exact);
  return 0;
}
