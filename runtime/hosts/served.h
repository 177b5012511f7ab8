/* A network that another process runs: the client of serve.c. Private to runtime/hosts/.
 *
 * In:   the socket of a server, an artifact, its priority, period and deadline.
 * Out:  memory for inputs and outputs; runs.
 * Next: easy.c calls it for devices by the name served:SOCKET.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SERVED_H
#define LDS_SERVED_H

#include "lds_easy.h"

typedef struct lds_served lds_served;

typedef struct lds_served_config {
  const char *socket; /* its path */
  uint32_t priority;
  uint64_t period_ns, deadline_ns; /* 0: none */
} lds_served_config;

/* The model's bytes, all of them, go to the server, which refuses what it cannot run beside others. */
int lds_served_open(const lds_served_config *config, const lds_model *model, lds_served **out, lds_easy_error *error);
/* NULL: nothing happens. */
void lds_served_close(lds_served *served);
/* An input, or the output of number `port - lds_model_input_count(model)`. */
void *lds_served_port(lds_served *served, uint32_t port);
/* Runs an entry of the model on what stands in its inputs. *cycles: of the device. */
int lds_served_run(lds_served *served, uint32_t entry, uint64_t *cycles, lds_easy_error *error);
int lds_served_reset(lds_served *served, lds_easy_error *error);
/* Of the last run, from its release to its end; and how many runs so far ended behind their deadlines. */
uint64_t lds_served_response_ns(const lds_served *served);
uint64_t lds_served_response_cycles(const lds_served *served);
uint64_t lds_served_missed(const lds_served *served);

#endif /* LDS_SERVED_H */
