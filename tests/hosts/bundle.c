/* Reads bundles that were spoiled in any way, under the address sanitizer.
 *
 * In:   a file: pieces, each a 32-bit size and so many bytes, in an allocation of its own.
 * Out:  on stdout, how many were refused and how many were read to the end.
 * Next: tests/hosts/test_bundle.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle.h"

#include <stdio.h>
#include <stdlib.h>

/* Touches all that a delegate would. */
static uint32_t read_all(const lds_bundle *bundle) {
  uint32_t sum = 0, k, n;
  for (k = 0; k < bundle->count; ++k) {
    lds_bundle_entry entry;
    lds_bundle_read(bundle, k, &entry);
    for (n = 0; n < entry.nodes + entry.inputs + entry.outputs; ++n) sum += (uint32_t)lds_bundle_word(&entry, n);
    for (n = 0; n < entry.artifact_bytes; ++n) sum += entry.artifact[n];
  }
  return sum;
}

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  uint32_t size, refused = 0, taken = 0, sum = 0;
  if (file == NULL) return 2;
  while (fread(&size, sizeof size, 1, file) == 1) {
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    lds_bundle bundle;
    if (bytes == NULL || fread(bytes, 1, size, file) != size) return 2;
    if (lds_bundle_open(&bundle, bytes, size) != NULL) {
      ++refused;
    } else {
      ++taken;
      sum += read_all(&bundle);
    }
    free(bytes);
  }
  (void)fclose(file);
  printf("%u refused, %u taken, %u\n", (unsigned)refused, (unsigned)taken, (unsigned)sum);
  return 0;
}
