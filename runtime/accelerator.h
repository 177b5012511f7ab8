/* The devices of a session besides its own. Private to runtime/.
 *
 * In:   a session whose regions stand in memory.
 * Out:  programs copied, checked and bound to addresses; who executes a step.
 * Next: session.c opens with it, run.c runs with it, both through lds_session_config.programs: only a port that has such devices links
 *       the code.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ACCELERATOR_PRIVATE_H
#define LDS_ACCELERATOR_PRIVATE_H

#include "session.h"

typedef struct lds_program_set {
  /* Every program has a sound record and its device, which is there. */
  int (*check)(const lds_session *session);
  /* What `open` needs of the caller's memory. */
  size_t (*scratch_bytes)(const lds_model *model);
  /* Pins the programs, validates and relocates them. s->code is theirs; the caller frees it. */
  int (*open)(lds_session *session, lds_memory scratch, lds_fault *fault);
  /* Fills in what the program of a step is; the device that executes it. */
  lds_device *(*job)(const lds_session *session, uint32_t step, lds_job *job);
  const char *(*layer)(const lds_model *model, uint32_t step, uint32_t instruction);
} lds_program_set;

#endif /* LDS_ACCELERATOR_PRIVATE_H */
