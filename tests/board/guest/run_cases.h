/* What every guest does, whatever it boots.
 *
 * In:   a board: its HAL, a model's bytes, inputs, a way to print.
 * Out:  lines that the test on the host reads.
 * Next: linux/init.c, firmware.c and user/main.c call it; tests/board/console.py reads the lines.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUN_CASES_H
#define RUN_CASES_H

#include "loadstone.h"

typedef struct board {
  const lds_hal *hal;
  const lds_register_block *registers;
  const uint8_t *model, *inputs; /* inputs: of one or more runs, one after the other */
  size_t model_bytes, inputs_bytes;
  uint32_t runs; /* run k takes input k modulo the number there are */
  void *memory;  /* for the session */
  size_t memory_bytes;
  void (*print)(const char *text);
  uint32_t (*interrupts)(void);                                        /* how many came so far; NULL: not known */
  int (*accelerators)(const lds_hal *hal, lds_session_config *config); /* the model's further devices; NULL: it has none */
} board;

/* Prints, per run, "run K begin" and "run K status S error E device D cycles C output HEX"; then "bad-address ..."; then
 * "interrupts N" and "done".
 * 0, or the status that kept the model from being opened. */
int run_cases(const board *b);

#endif
