/* The network of one client of a server. Private to runtime/hosts/.
 *
 * In:   the memory file of an artifact, the schedule of the device.
 * Out:  a task of the schedule, whose inputs and outputs stand in memory that the client has, too.
 * Next: serve.c answers the client.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_GUEST_H
#define LDS_GUEST_H

#include "easy.h"
#include "lds_schedule.h"
#include "lds_serve.h"
#include "serve.h"

typedef struct lds_guest {
  struct lds_guest *next;
  lds_server *server;
  int channel;        /* -1: it has gone */
  uint64_t came;      /* when */
  lds_packet request; /* the last */
  lds_easy *net;      /* NULL: it has not opened one */
  void *file;         /* its artifact */
  lds_task task;
  uint8_t *memory; /* inputs and outputs */
  size_t memory_bytes;
  int asked, waits;                  /* a run is not answered; it is not released before `due` */
  uint64_t due, earliest, period_ns; /* earliest: of the next release */
  uint64_t cycles;                   /* of the last run */
  uint64_t released_at_cycles, response_cycles;
} lds_guest;

/* Opens the artifact in the memory file, adds it to the schedule, and makes the memory whose descriptor is *memory. ended: its `done`. */
int lds_guest_open(lds_guest *guest, lds_easy_device *device, lds_schedule *schedule, const lds_serve_request *request, int artifact,
                   void (*ended)(void *ctx, lds_task *task, int status), int *memory, lds_easy_error *error);
/* Makes an entry the one that runs next. */
int lds_guest_enter(lds_guest *guest, lds_schedule *schedule, uint32_t entry, lds_easy_error *error);
/* After a run: outputs to the client's memory, or why there are none. */
void lds_guest_take(lds_guest *guest, int status, lds_easy_error *error);
/* Removes the task, and frees all but the guest itself. */
void lds_guest_close(lds_guest *guest, lds_schedule *schedule);

#endif /* LDS_GUEST_H */
