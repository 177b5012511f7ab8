/* The functions of guest.h.
 *
 * In:   a descriptor and numbers from a client, which may be anything.
 * Out:  a network that is validated, isolated and scheduled; or one line that says why not.
 * Next: serve.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create, F_GET_SEALS */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 512 };

/* --- the artifact ------------------------------------------------------------------------------------------------------------ */
/* A copy of all bytes of a file, which the client may change meanwhile. A memory file, so that reading never waits for anybody; without
 * holes, so that whoever sends many bytes has them. NULL with a line in *error. */
static void *copy_of(int file, size_t *size_bytes, lds_easy_error *error) {
  struct stat about;
  uint8_t *bytes;
  size_t at = 0;
  if (file < 0 || fcntl(file, F_GET_SEALS) < 0 || fstat(file, &about) != 0 || about.st_size <= 0 || (uint64_t)about.st_size > UINT32_MAX ||
      (uint64_t)about.st_blocks < (uint64_t)about.st_size / BLOCK_BYTES) {
    (void)lds_easy_fail(error, LDS_ERR_ARGUMENT, "the artifact is no memory file (memfd) of 1 to 4294967295 bytes without holes");
    return NULL;
  }
  *size_bytes = (size_t)about.st_size;
  bytes = malloc(*size_bytes);
  while (bytes != NULL && at < *size_bytes) {
    const ssize_t got = pread(file, bytes + at, *size_bytes - at, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      free(bytes);
      bytes = NULL;
    }
    at += got > 0 ? (size_t)got : 0;
  }
  if (bytes == NULL) (void)lds_easy_fail(error, LDS_ERR_MEMORY, "the server cannot copy the artifact: %s", strerror(errno));
  return bytes;
}

/* --- memory that both have --------------------------------------------------------------------------------------------------- */
static int share(lds_guest *g, int *memory, lds_easy_error *error) {
  const lds_model *model = &g->net->model;
  g->memory_bytes = lds_serve_place(model, lds_model_input_count(model) + lds_model_output_count(model), NULL);
  if (g->memory_bytes == 0) return LDS_OK;
  *memory = g->memory_bytes > SIZE_MAX / 2 ? -1 : memfd_create("loadstone-served", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (*memory >= 0 && ftruncate(*memory, (off_t)g->memory_bytes) == 0 &&
      fcntl(*memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    g->memory = lds_packets_map(*memory, g->memory_bytes, 0);
  }
  if (g->memory != NULL) return LDS_OK;
  return lds_easy_fail(error, LDS_ERR_MEMORY, "the server has no %lu bytes of memory for inputs and outputs: %s",
                       (unsigned long)g->memory_bytes, strerror(errno));
}

static int bring(void *ctx, lds_task *task) {
  lds_guest *g = ctx;
  uint32_t k;
  for (k = 0; k < g->net->entry.inputs; ++k) {
    size_t size_bytes;
    const size_t place = lds_serve_place(&g->net->model, g->net->entry.first_input + k, &size_bytes);
    memcpy(lds_session_input(task->session, g->net->entry.first_input + k), g->memory + place, size_bytes);
  }
  return LDS_OK;
}

void lds_guest_take(lds_guest *g, int status, lds_easy_error *error) {
  const uint32_t inputs = lds_model_input_count(&g->net->model);
  lds_counters counters = {0};
  uint32_t k;
  g->cycles = 0;
  if (status != LDS_OK) {
    (void)lds_easy_fail_run(g->net, status, error);
    return;
  }
  for (k = 0; k < g->net->entry.outputs; ++k) {
    size_t size_bytes;
    const size_t place = lds_serve_place(&g->net->model, inputs + g->net->entry.first_output + k, &size_bytes);
    memcpy(g->memory + place, lds_session_output(g->net->session, g->net->entry.first_output + k), size_bytes);
  }
  lds_session_counters(g->net->session, &counters);
  g->cycles = counters.cycles;
}

/* --- the task ---------------------------------------------------------------------------------------------------------------- */
static int join(lds_guest *g, lds_schedule *schedule, const lds_serve_request *request, void (*ended)(void *, lds_task *, int),
                lds_easy_error *error) {
  lds_task_config config;
  int status;
  lds_task_config_default(&config);
  config.priority = request->head.second;
  config.deadline = request->deadline_ns;
  config.begin = bring;
  config.done = ended;
  config.ctx = g;
  config.isolated = lds_model_isolated;
  config.scratch_bytes = lds_isolated_scratch_bytes(&g->net->model);
  config.scratch = malloc(config.scratch_bytes + 1u);
  if (config.scratch == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "the server is out of memory");
  status = lds_schedule_add(schedule, &g->task, g->net->session, &config);
  free(config.scratch);
  g->task.config.isolated = NULL; /* it is */
  if (status == LDS_OK) return LDS_OK;
  return lds_easy_fail(error, status, "model '%.60s' cannot share a device: %s", lds_easy_name(g->net), lds_status_text(status));
}

int lds_guest_open(lds_guest *g, lds_easy_device *device, lds_schedule *schedule, const lds_serve_request *request, int artifact,
                   void (*ended)(void *ctx, lds_task *task, int status), int *memory, lds_easy_error *error) {
  size_t size_bytes = 0;
  int status;
  g->file = copy_of(artifact, &size_bytes, error);
  if (g->file == NULL) return error->status;
  g->period_ns = request->period_ns;
  status = lds_easy_open(device, g->file, size_bytes, &g->net, error);
  if (status == LDS_OK) status = share(g, memory, error);
  if (status == LDS_OK) status = join(g, schedule, request, ended, error);
  if (status != LDS_OK) lds_guest_close(g, schedule);
  return status;
}

int lds_guest_enter(lds_guest *g, lds_schedule *schedule, uint32_t entry, lds_easy_error *error) {
  lds_task_config config = g->task.config;
  const uint64_t missed = g->task.missed, response = g->task.response;
  int status;
  if (entry == g->net->entry_number) return LDS_OK;
  status = lds_easy_enter(g->net, entry, error);
  if (status != LDS_OK) return status;
  config.entry = entry;
  (void)lds_schedule_remove(schedule, &g->task);
  status = lds_schedule_add(schedule, &g->task, g->net->session, &config);
  g->task.missed = missed;
  g->task.response = response;
  return status == LDS_OK ? LDS_OK : lds_easy_fail(error, status, "entry %lu: %s", (unsigned long)entry, lds_status_text(status));
}

void lds_guest_close(lds_guest *g, lds_schedule *schedule) {
  if (g->net != NULL) {
    (void)lds_schedule_remove(schedule, &g->task);
    lds_easy_close(g->net);
  }
  if (g->memory != NULL) (void)munmap(g->memory, g->memory_bytes);
  free(g->file);
  g->net = NULL;
  g->memory = NULL;
  g->file = NULL;
}
