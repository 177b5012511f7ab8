/* The functions of bundle.h: read the artifacts in a .tflite file, all of whose contents are checked.
 *
 * In:   bytes.
 * Out:  entries whose parts lie inside.
 * Next: delegate.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle.h"

#include <string.h>

enum { HEADER_BYTES = 32, ENTRY_BYTES = 32, MOST_ENTRIES = 65536, MOST_WORDS = 1 << 20 };

static uint32_t u32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

void lds_bundle_read(const lds_bundle *bundle, uint32_t index, lds_bundle_entry *out) {
  const uint8_t *p = bundle->bytes + HEADER_BYTES + (size_t)ENTRY_BYTES * index;
  out->hash = u32(p);
  out->nodes = u32(p + 4);
  out->inputs = u32(p + 8);
  out->outputs = u32(p + 12);
  out->words = bundle->bytes + u32(p + 16);
  out->artifact = bundle->bytes + u32(p + 20);
  out->artifact_bytes = u32(p + 24);
}

int32_t lds_bundle_word(const lds_bundle_entry *entry, uint32_t index) {
  const uint32_t word = u32(entry->words + 4u * (size_t)index);
  int32_t value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static int lies_inside(uint64_t offset, uint64_t size, uint64_t total) { return offset <= total && size <= total - offset; }

static int is_sound(const lds_bundle *bundle, uint32_t index) {
  const uint8_t *p = bundle->bytes + HEADER_BYTES + (size_t)ENTRY_BYTES * index;
  uint64_t words = 0;
  int k;
  for (k = 1; k <= 3; ++k) {
    if (u32(p + 4 * k) > MOST_WORDS) return 0;
    words += u32(p + 4 * k);
  }
  return u32(p + 4) > 0 && u32(p + 12) > 0 && lies_inside(u32(p + 16), 4u * words, bundle->size_bytes) &&
         lies_inside(u32(p + 20), u32(p + 24), bundle->size_bytes);
}

const char *lds_bundle_open(lds_bundle *bundle, const void *bytes, size_t size_bytes) {
  const uint8_t *p = bytes;
  uint32_t k;
  if (size_bytes < HEADER_BYTES || memcmp(p, "LDSB", 4) != 0) return "they are not artifacts of Loadstone";
  if (u32(p + 4) != 1) return "they have another format version: compile the model again";
  if (u32(p + 8) != size_bytes) return "they are truncated";
  bundle->bytes = p;
  bundle->size_bytes = (uint32_t)size_bytes;
  bundle->count = u32(p + 12);
  if (bundle->count > MOST_ENTRIES || !lies_inside(HEADER_BYTES, (uint64_t)ENTRY_BYTES * bundle->count, size_bytes))
    return "they are damaged";
  for (k = 0; k < bundle->count; ++k) {
    if (!is_sound(bundle, k)) return "they are damaged";
  }
  return NULL;
}
