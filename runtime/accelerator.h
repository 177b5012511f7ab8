/* The devices of a session besides its own. Private to runtime/.
 *
 * In:   a session whose regions stand in memory.
 * Out:  programs copied, checked and bound to addresses; who executes a step; all devices claimed, or none.
 * Next: session.c opens with it, run.c runs with it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ACCELERATOR_PRIVATE_H
#define LDS_ACCELERATOR_PRIVATE_H

#include "session.h"

/* Every program has a sound record and its device, which is there. */
int lds_accelerators_check(const lds_session *session);
/* Pins the programs, validates and relocates them. s->code is theirs; the caller frees it. */
int lds_accelerators_open(lds_session *session, lds_fault *fault);
/* Fills in what the program of a step is; the device that executes it. */
lds_device *lds_accelerators_job(const lds_session *session, uint32_t step, lds_job *job);

/* The session's own device, then those of the configuration; NULL behind the last. */
lds_device *lds_session_device(const lds_session *session, uint32_t index);
/* Whether all of them are now this session's. */
int lds_devices_claim(const lds_session *session);
void lds_devices_release(const lds_session *session);

#endif /* LDS_ACCELERATOR_PRIVATE_H */
