/* A further VTA of an artifact: its programs, validated and bound to addresses as those of the session's own. Private to runtime/.
 *
 * In:   a program whose fingerprint is that of a VTA (FORMAT.md, Programs of other devices).
 * Out:  whether its device is there; its instructions, ready to run.
 * Next: accelerator.c places it in memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_VTA_PROGRAM_H
#define LDS_VTA_PROGRAM_H

#include "program.h"
#include "session.h"

/* Of the scratch memory that validating the programs of all further VTAs takes; 0 where there are none. */
size_t lds_vta_scratch_bytes(const lds_model *model);
/* Whether the program is for this device, and the device is there. */
int lds_vta_check(const lds_model *model, const lds_program *program, lds_device *device);
/* Validates the program as it stands in `code`, and resolves its regions. */
int lds_vta_open(const lds_session *session, const lds_program *program, const lds_device *device, uint8_t *code, lds_memory memory,
                 lds_fault *fault);

#endif /* LDS_VTA_PROGRAM_H */
