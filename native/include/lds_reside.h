/* Places for tiles in scratchpads, and which of them need no load.
 *
 * In:   tiles in the order of their first use, as columns: size, what they hold, when they live; the scratchpads.
 * Out:  the first place of each tile; whether what it holds is still there.
 * Next: reside.cc; isa/residency.py calls it and sets the preferred windows. vta/passes/allocate/verify.py verifies the result.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_RESIDE_H
#define LDS_RESIDE_H

#ifndef LDS_CDEF
#include <stdint.h>
#endif

#include "lds_native.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_RESIDE_OK = 0,
  LDS_RESIDE_BAD_ARGUMENT = 1, /* a column holds an invalid value */
  LDS_RESIDE_NO_MEMORY = 2,
  LDS_RESIDE_NO_ROOM = 3 /* every window for `tile` overlaps a live tile */
};

/* isa/scratchpad.py, Order */
enum { LDS_RESIDE_SPREAD = 0, LDS_RESIDE_FITTED = 1, LDS_RESIDE_PACKED = 2, LDS_RESIDE_APART = 3 };

typedef struct lds_reside_tile {
  int64_t pad, size;
  int64_t content;     /* tiles with equal numbers have equal contents; -1: not only loads write it */
  int64_t first, last; /* its first and last use; tiles are sorted by first use */
  int64_t beside;      /* the size of the tiles that must also fit while this one is live; 0: none */
  int64_t order;       /* which windows are preferred */
} lds_reside_tile;

typedef struct lds_no_room {
  uint32_t tile;
  int64_t live; /* places of the scratchpad that are in use */
} lds_no_room;

/* depth: places of each scratchpad. contents: the exclusive limit of content numbers. address, resident: for each tile its first place,
 * and 1 where its content is resident already. no_room: the details of LDS_RESIDE_NO_ROOM. */
LDS_NATIVE_EXPORT int lds_reside(uint32_t pads, const int64_t *depth, uint32_t contents, uint32_t tiles, const lds_reside_tile *tile,
                                 int64_t *address, uint8_t *resident, lds_no_room *no_room);

#ifdef __cplusplus
}
#endif

#endif /* LDS_RESIDE_H */
