/* The artifacts that a .tflite file carries in its metadata "loadstone", and which operators each stands for.
 *
 *     0   "LDSB"            32  entries, 32 bytes each:
 *     4   u32 version, 1        u32 hash      CRC-32 of the subgraph: subgraph.h
 *     8   u32 total bytes       u32 nodes     how many operators
 *     12  u32 entries           u32 inputs    how many inputs the artifact has
 *     16  u32 0 (four of them)  u32 outputs
 *                               u32 words     where they stand: i32 operators, then input tensors, then output tensors, by their
 *                                             indices in the file, in the artifact's order
 *                               u32 artifact  where it stands
 *                               u32 artifact bytes
 *                               u32 0
 *
 * In:   bytes, little-endian, at any alignment; python/loadstone/hosts/litert.py writes them.
 * Out:  lds_bundle_entry. Every offset and count is checked first.
 * Next: delegate.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_BUNDLE_H
#define LDS_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

typedef struct lds_bundle {
  const uint8_t *bytes;
  uint32_t size_bytes, count;
} lds_bundle;

typedef struct lds_bundle_entry {
  uint32_t hash, nodes, inputs, outputs;
  const uint8_t *words; /* nodes, inputs, outputs */
  const uint8_t *artifact;
  uint32_t artifact_bytes;
} lds_bundle_entry;

/* NULL, or a description of the error. */
const char *lds_bundle_open(lds_bundle *bundle, const void *bytes, size_t size_bytes);
/* index < count. */
void lds_bundle_read(const lds_bundle *bundle, uint32_t index, lds_bundle_entry *out);
int32_t lds_bundle_word(const lds_bundle_entry *entry, uint32_t index);

#endif /* LDS_BUNDLE_H */
