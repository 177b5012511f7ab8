/* The order of instructions: which others each must not overtake, and the tokens that enforce it.
 *
 * In:   instructions in program order, as columns: the unit of each, the places that it touches, its cycles; the queues between units.
 * Out:  for each instruction, the last one of each unit that it must not overtake; which instructions push and pop each token, and where
 *       no-ops must be inserted.
 * Next: hazards.cc and order.cc; isa/hazards.py and isa/tokens.py call them, isa/token_proof.py proves the result.
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
  LDS_ORDER_BAD_ARGUMENT = 1, /* a column holds an invalid value */
  LDS_ORDER_NO_MEMORY = 2,
  LDS_ORDER_NO_QUEUE = 3, /* there is no path of queues from unit who[0] to who[1], which depends on it */
  LDS_ORDER_NO_NOOP = 4   /* who[0] must wait for who[1] through who[2], which has no no-op */
};

/* Stands for no instruction, no queue, no unit. */
enum { LDS_ORDER_NONE = -1 };

/* An access to places of a memory: `extent` of them from `first` on, in each iteration of its loops. */
typedef struct lds_touch {
  int64_t step;   /* the instruction that touches them */
  int64_t space;  /* the memory */
  int64_t writes; /* 0: it reads them */
  int64_t first, extent;
  int64_t loops; /* the number of its loops, which follow those of the touches before this one */
} lds_touch;

typedef struct lds_touch_loop {
  int64_t count, stride;
} lds_touch_loop;

/* Instructions; the touches of each space are in program order. */
typedef struct lds_touching {
  uint32_t units, steps, spaces;
  const int32_t *unit; /* of each instruction */
  uint32_t touches, loops;
  const lds_touch *touch;
  const lds_touch_loop *loop;
} lds_touching;

/* conflicts[steps][units]: for each instruction, the last instruction of each unit that it must not overtake. */
LDS_NATIVE_EXPORT int lds_order_conflicts(const lds_touching *touching, int32_t *conflicts);

typedef struct lds_token_rules {
  uint32_t units, queues;
  const int32_t *pusher, *popper, *most; /* of each queue: its ends, and the tokens that it holds */
  const int64_t *noop_cycles;            /* of each unit: the cycles of its no-op; negative: it has none */
  int32_t late;                          /* the queue that isa/tokens.py says is late */
} lds_token_rules;

typedef struct lds_order_steps {
  uint32_t count;
  const int32_t *unit;
  const int64_t *cycles;
  const uint8_t *joins;     /* it waits for all instructions before it */
  const int32_t *conflicts; /* [count][units] */
} lds_order_steps;

typedef struct lds_token {
  int32_t queue, push, pop; /* instructions of the new stream */
} lds_token;

/* The new stream; if the status is not OK, only the status and `who` are valid. */
typedef struct lds_ordered {
  int32_t status;
  int32_t who[3];
  uint32_t steps, tokens;
  const int32_t *source; /* of each instruction: its number in the old stream, or that of the instruction it was inserted for */
  const int32_t *noop;   /* of each inserted no-op: its unit */
  const lds_token *token;
} lds_ordered;

/* NULL when memory is exhausted. */
LDS_NATIVE_EXPORT const lds_ordered *lds_order_tokens(const lds_token_rules *rules, const lds_order_steps *steps);
LDS_NATIVE_EXPORT void lds_ordered_free(const lds_ordered *ordered);

#ifdef __cplusplus
}
#endif

#endif /* LDS_ORDER_H */
