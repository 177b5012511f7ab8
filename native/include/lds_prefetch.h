/* Move loads of weights forward, into the time in which the load stage would wait.
 *
 * In:   operations in program order, and the tiles that they touch, as columns.
 * Out:  the same operations in a better order.
 * Next: prefetch.cc; vta/passes/prefetch.py calls it, explains why, and verifies the result.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_PREFETCH_H
#define LDS_PREFETCH_H

#ifndef LDS_CDEF
#include <stdint.h>
#endif

#include "lds_native.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_PREFETCH_OK = 0,
  LDS_PREFETCH_BAD_ARGUMENT = 1, /* a column holds an invalid value */
  LDS_PREFETCH_NO_MEMORY = 2
};

/* The kind of an operation. Loads of weights may move, except those of weights that the program writes. The compute stage loads operands.
 */
enum {
  LDS_PREFETCH_WEIGHTS = 0,
  LDS_PREFETCH_WEIGHTS_THAT_STAY = 1,
  LDS_PREFETCH_INPUT = 2,
  LDS_PREFETCH_OPERANDS = 3,
  LDS_PREFETCH_STORE = 4,
  LDS_PREFETCH_COMPUTE = 5
};

typedef struct lds_prefetch_step {
  int64_t kind, cycles;
  int64_t tile[3];                          /* the tiles that it accesses, or -1; the first is the one that it loads, stores or computes */
  int64_t tensor, first, rows, row, stride; /* of a copy: places of a tensor: `rows` rows of `row` each, `stride` apart */
} lds_prefetch_step;

typedef struct lds_prefetch_tile {
  int64_t size;
  int64_t content; /* tiles with equal numbers have equal contents; -1: not only loads write it */
  int64_t weights; /* 0: it holds no weights */
} lds_prefetch_tile;

/* inputs: places of the input scratchpad. weights: the number of places that live and prefetched weights may occupy. contents, tensors:
 * exclusive limits of their numbers. */
typedef struct lds_prefetch_stream {
  int64_t inputs, weights;
  uint32_t contents, tensors;
  uint32_t tiles, steps;
  const lds_prefetch_tile *tile;
  const lds_prefetch_step *step;
} lds_prefetch_stream;

/* order: the number of each operation, in the new order. */
LDS_NATIVE_EXPORT int lds_prefetch(const lds_prefetch_stream *stream, int64_t *order);

#ifdef __cplusplus
}
#endif

#endif /* LDS_PREFETCH_H */
