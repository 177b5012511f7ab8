/* The networks of a firmware, which share one device by priorities.
 *
 * In:   networks.c, which `loadstone export` writes, and the header of each.
 * Out:  a table.
 * Next: main.c adds all of them to a schedule.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NETWORKS_H
#define NETWORKS_H

#include "model.h"

typedef struct network {
  const char *name;
  const uint8_t *bytes, *bytes_end;
  void *session; /* memory for it */
  size_t session_bytes;
  uint32_t inputs;
  const uint8_t *sample, *sample_end; /* of the first input of each run; NULL: zeros */
  uint32_t priority;                  /* the largest goes first */
  uint64_t period_ns;                 /* from one release to the next; 0: released once */
  const lds_operator_set *operators;  /* NULL: the default ones */
  int (*external)(void *ctx, lds_session *session, uint32_t step);
} network;

extern const network networks[NETWORKS];

#endif /* NETWORKS_H */
