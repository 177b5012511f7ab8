/* An open network, as the calls of lds_easy.h and the server share it. Private to runtime/hosts/.
 *
 * In:   a device, an artifact.
 * Out:  the session, the entry that runs, and errors with their place.
 * Next: easy.c runs it; serve.c runs it for another process.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_EASY_NETWORK_H
#define LDS_EASY_NETWORK_H

#include "device.h"
#include "served.h"

struct lds_easy {
  lds_easy_device *device;
  void *file; /* the artifact, if it was read here */
  void *memory;
  lds_model model;
  lds_session *session;     /* NULL: another process has it */
  lds_accelerator *further; /* what it has beside the device: beside.h */
  uint32_t further_count;
  lds_served *served; /* NULL: this process has it */
  lds_entry entry;    /* the one that runs */
  uint32_t entry_number;
  lds_binding *ports; /* inputs, then outputs: which may be bound to other memory, and in a run their addresses */
  uint64_t copied_bytes, cycles;
};

/* Makes an entry the one that runs. */
int lds_easy_enter(lds_easy *net, uint32_t number, lds_easy_error *error);
/* Says why the last run ended as it did: the step or instruction, its layer, the device's own error. Returns status. */
int lds_easy_fail_run(const lds_easy *net, int status, lds_easy_error *error);

#endif /* LDS_EASY_NETWORK_H */
