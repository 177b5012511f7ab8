/* The functions of served.h.
 *
 * In:   the socket of a server, an artifact.
 * Out:  requests, and what their answers say.
 * Next: serve.c answers.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_name.h"
#include "serve.h"

struct lds_served {
  int channel; /* -1: the server is gone */
  const lds_model *model;
  uint32_t sequence;
  uint8_t *memory;
  size_t memory_bytes;
  uint64_t response_ns, response_cycles, missed;
  char socket[LDS_NAME_BYTES];
};

size_t lds_serve_place(const lds_model *model, uint32_t port, size_t *size_bytes) {
  const uint32_t inputs = lds_model_input_count(model), ports = inputs + lds_model_output_count(model);
  size_t place = 0, size = 0;
  lds_tensor tensor;
  uint32_t k;
  for (k = 0; k <= port && place <= SIZE_MAX / 2; ++k) {
    place += (size + 63u) / 64u * 64u;
    size = 0;
    if (k < ports && (k < inputs ? lds_model_input(model, k, &tensor) : lds_model_output(model, k - inputs, &tensor)) == LDS_OK) {
      size = tensor.size_bytes;
    }
  }
  if (size_bytes != NULL) *size_bytes = size;
  return place > SIZE_MAX / 2 ? SIZE_MAX : place;
}

/* --- requests ---------------------------------------------------------------------------------------------------------------- */
static int gone(lds_served *s, lds_easy_error *error) {
  if (s->channel >= 0) (void)close(s->channel);
  s->channel = -1;
  return lds_easy_fail(error, LDS_ERR_ABSENT, "the server at %.200s is gone", s->socket);
}

/* Sends a request, with a descriptor unless that is -1, and waits for its answer; *descriptor is what came with it. */
static int call(lds_served *s, lds_serve_request *request, size_t size_bytes, int *descriptor, lds_serve_answer *answer,
                lds_easy_error *error) {
  const int given = *descriptor;
  *descriptor = -1;
  memset(answer, 0, sizeof *answer);
  request->head.sequence = ++s->sequence;
  if (s->channel < 0 || !lds_packets_send(s->channel, request, size_bytes, given, 0)) return gone(s, error);
  if (lds_packets_receive(s->channel, answer, sizeof *answer, descriptor, 0) != (long)sizeof *answer ||
      answer->head.kind != request->head.kind || answer->head.sequence != request->head.sequence) {
    return gone(s, error);
  }
  answer->text[sizeof answer->text - 1u] = 0;
  s->response_ns = answer->response_ns;
  s->response_cycles = answer->response_cycles;
  s->missed = answer->missed;
  return lds_easy_fail(error, (int32_t)answer->head.first, "%s", answer->text);
}

static int ask(lds_served *s, uint32_t kind, uint32_t first, uint64_t *cycles, lds_easy_error *error) {
  lds_serve_request request;
  lds_serve_answer answer;
  int descriptor = -1, status;
  memset(&request, 0, sizeof request);
  request.head.kind = kind;
  request.head.first = first;
  status = call(s, &request, sizeof request.head, &descriptor, &answer, error);
  if (descriptor >= 0) (void)close(descriptor);
  if (cycles != NULL) *cycles = answer.cycles;
  return status;
}

int lds_served_run(lds_served *s, uint32_t entry, uint64_t *cycles, lds_easy_error *error) {
  return ask(s, LDS_SERVE_RUN, entry, cycles, error);
}

int lds_served_reset(lds_served *s, lds_easy_error *error) { return ask(s, LDS_SERVE_RESET, 0, NULL, error); }

/* --- opening ----------------------------------------------------------------------------------------------------------------- */
/* A memory file with these bytes, or -1. */
static int in_memory_file(const uint8_t *bytes, size_t size_bytes) {
  const int file = memfd_create("loadstone-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  size_t at = 0;
  while (file >= 0 && at < size_bytes) {
    const ssize_t written = write(file, bytes + at, size_bytes - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      (void)close(file);
      return -1;
    }
    at += (size_t)written;
  }
  return file;
}

static int enter(lds_served *s, const lds_served_config *config, lds_easy_error *error) {
  const lds_model *model = s->model;
  lds_serve_request request;
  lds_serve_answer answer;
  int descriptor = in_memory_file(model->bytes, model->size_bytes), status;
  const int file = descriptor;
  if (file < 0) return lds_easy_fail(error, LDS_ERR_MEMORY, "no memory for a copy of the artifact: %s", strerror(errno));
  memset(&request, 0, sizeof request);
  request.head.kind = LDS_SERVE_OPEN;
  request.head.first = LDS_SERVE_VERSION;
  request.head.second = config->priority;
  request.period_ns = config->period_ns;
  request.deadline_ns = config->deadline_ns;
  status = call(s, &request, sizeof request, &descriptor, &answer, error);
  (void)close(file);
  if (status == LDS_OK && s->memory_bytes != 0) {
    s->memory = descriptor < 0 ? NULL : lds_packets_map(descriptor, s->memory_bytes, 0);
    if (s->memory == NULL) {
      status = lds_easy_fail(error, LDS_ERR_MEMORY, "the memory of the server at %.200s cannot be mapped safely", s->socket);
    }
  }
  if (descriptor >= 0) (void)close(descriptor);
  return status;
}

int lds_served_open(const lds_served_config *config, const lds_model *model, lds_served **out, lds_easy_error *error) {
  lds_served *s = calloc(1, sizeof *s);
  int status;
  if (s == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "server at %.200s: out of memory", config->socket);
  s->model = model;
  s->memory_bytes = lds_serve_place(model, lds_model_input_count(model) + lds_model_output_count(model), NULL);
  strcpy(s->socket, config->socket); /* a part of a device's name */
  s->channel = lds_packets_connect(config->socket, 0);
  if (s->channel < 0) {
    status = lds_easy_fail(error, LDS_ERR_ABSENT, "no server answers at %.200s: start `loadstone serve DEVICE SOCKET`", config->socket);
  } else {
    status = enter(s, config, error);
  }
  if (status != LDS_OK) {
    lds_served_close(s);
    return status;
  }
  *out = s;
  return LDS_OK;
}

void lds_served_close(lds_served *s) {
  if (s == NULL) return;
  if (s->channel >= 0) (void)close(s->channel);
  if (s->memory != NULL) (void)munmap(s->memory, s->memory_bytes);
  free(s);
}

void *lds_served_port(lds_served *s, uint32_t port) { return s->memory + lds_serve_place(s->model, port, NULL); }

uint64_t lds_served_response_ns(const lds_served *s) { return s->response_ns; }

uint64_t lds_served_response_cycles(const lds_served *s) { return s->response_cycles; }

uint64_t lds_served_missed(const lds_served *s) { return s->missed; }
