/* What orders instructions: whom each must not overtake, and the tokens that see to it.
 *
 * In:   instructions in program order, as columns: the unit of each, the places that it touches, its cycles; the queues between units.
 * Out:  the last instruction of each unit that one must not overtake; who gives and who takes each token, and where instructions that
 *       do nothing must stand.
 * Next: hazards.cc and order.cc; isa/hazards.py and isa/tokens.py call them, isa/token_proof.py proves what comes out.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ORDER_H
#define LDS_ORDER_H

#ifndef LDS_CDEF
#include <stdint.h>
#endif

#include "lds_native.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_ORDER_OK = 0,
  LDS_ORDER_BAD_ARGUMENT = 1, /* a column holds what cannot be */
  LDS_ORDER_NO_MEMORY = 2,
  LDS_ORDER_NO_QUEUE = 3, /* no queues lead from unit who[0] to who[1], which depends on it */
  LDS_ORDER_NO_NOOP = 4   /* who[0] must wait for who[1] by way of who[2], which has no instruction that does nothing */
};

/* The number of no instruction, no queue, no unit. */
enum { LDS_ORDER_NONE = -1 };

/* Places of a memory: `extent` of them in each turn of its loops, which begin at `first`. */
typedef struct lds_touch {
  int64_t step;   /* the instruction that touches them */
  int64_t space;  /* the memory */
  int64_t writes; /* 0: it reads them */
  int64_t first, extent;
  int64_t loops; /* so many, behind those of the touches before this one */
} lds_touch;

typedef struct lds_touch_loop {
  int64_t count, stride;
} lds_touch_loop;

/* Instructions; of each space, their touches stand in program order. */
typedef struct lds_touching {
  uint32_t units, steps, spaces;
  const int32_t *unit; /* of each instruction */
  uint32_t touches, loops;
  const lds_touch *touch;
  const lds_touch_loop *loop;
} lds_touching;

/* Of each instruction, and for each unit: its last instruction that this one must not overtake. conflicts: [steps][units]. */
LDS_NATIVE_EXPORT int lds_order_conflicts(const lds_touching *touching, int32_t *conflicts);

typedef struct lds_token_rules {
  uint32_t units, queues;
  const int32_t *pusher, *popper, *most; /* of each queue: its ends, and the tokens that it holds */
  const int64_t *noop_cycles;            /* of each unit: those of its instruction that does nothing; negative: it has none */
  int32_t late;                          /* the queue that isa/tokens.py says is late */
} lds_token_rules;

typedef struct lds_order_steps {
  uint32_t count;
  const int32_t *unit;
  const int64_t *cycles;
  const uint8_t *joins;     /* it waits for all before it */
  const int32_t *conflicts; /* [count][units] */
} lds_order_steps;

typedef struct lds_token {
  int32_t queue, push, pop; /* instructions of the new stream */
} lds_token;

/* The new stream; where the status is another than OK, nothing but that and `who` counts. */
typedef struct lds_ordered {
  int32_t status;
  int32_t who[3];
  uint32_t steps, tokens;
  const int32_t *source; /* of each instruction: the one that it was, or in whose place it stands */
  const int32_t *noop;   /* of each that does nothing and is new: its unit */
  const lds_token *token;
} lds_ordered;

/* NULL when memory is out. */
LDS_NATIVE_EXPORT const lds_ordered *lds_order_tokens(const lds_token_rules *rules, const lds_order_steps *steps);
LDS_NATIVE_EXPORT void lds_ordered_free(const lds_ordered *ordered);

#ifdef __cplusplus
}
#endif

#endif /* LDS_ORDER_H */
