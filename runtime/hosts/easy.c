/* lds_easy.h: an artifact's session with its memory, its device, and a lock.
 *
 * In:   a device's name, an artifact, arrays.
 * Out:  outputs, and errors as one line that names the model, the step and the layer.
 * Next: runtime/session.c does the work. memory.c has the memory in which arrays are not copied.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread */
#include "easy.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"

enum { ARRAY_ALIGN = 8 }; /* of the largest element */

/* --- networks ---------------------------------------------------------------------------------------------------------------- */
/* Formats an error of the runtime with its location: the step or instruction, and the device's own error. */
static int fail_at(lds_easy_error *error, const lds_easy *net, int status, const lds_fault *fault) {
  char place[256] = "", cause[192] = "";
  lds_step_info step;
  const int placed = fault->status == status;
  int at = 0;
  if (placed && net->session != NULL && lds_session_step(net->session, fault->step, &step) == LDS_OK) {
    at = snprintf(place, sizeof place, ", step '%.60s'", step.name);
  }
  if (placed && fault->device != 0 && at >= 0 && (size_t)at < sizeof place) { /* the first is the one that is named */
    at += snprintf(place + at, sizeof place - (size_t)at, ", device '%.60s'", lds_model_device(&net->model, fault->device));
  }
  if (placed && fault->layer != NULL && at >= 0 && (size_t)at < sizeof place) {
    (void)snprintf(place + at, sizeof place - (size_t)at, ", instruction %lu (layer '%.100s')", (unsigned long)fault->instruction,
                   fault->layer);
  }
  if (placed && fault->error != 0) {
    (void)snprintf(cause, sizeof cause, ": its error %lu (docs/isa.md), bus address 0x%08lx", (unsigned long)fault->error,
                   (unsigned long)fault->error_addr);
  }
  if (status == LDS_ERR_ACCELERATOR)
    (void)snprintf(cause, sizeof cause,
                   "; a network has further VTAs here and with `loadstone serve`, but no accelerators of plug-ins: run it from Python or "
                   "with `loadstone export`");
  return lds_easy_fail(error, status, "model '%.60s'%s: %s%s", lds_model_name(&net->model), place, lds_status_text(status), cause);
}

int lds_easy_fail_run(const lds_easy *net, int status, lds_easy_error *error) {
  lds_fault fault = {0};
  lds_session_fault(net->session, &fault);
  return fail_at(error, net, status, &fault);
}

static int open_session(lds_easy *net, lds_easy_error *error) {
  lds_session_config config;
  lds_fault fault = {0};
  size_t size_bytes;
  int status;
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  status = lds_beside_open(net->device, &net->model, &net->further, &net->further_count, error);
  if (status != LDS_OK) return status;
  if (net->further_count != 0) lds_session_config_accelerators(&config, net->further, net->further_count);
  config.hang_ns = net->device->name.hang_ns;
  config.external = net->device->external;
  config.external_ctx = net->device->external_ctx;
  size_bytes = lds_session_size_bytes(&net->model, &config);
  net->memory = size_bytes == SIZE_MAX ? NULL : malloc(size_bytes);
  if (net->memory == NULL) {
    return lds_easy_fail(error, LDS_ERR_MEMORY, "model '%.60s' needs %lu bytes of the host's memory, which are not available",
                         lds_model_name(&net->model), (unsigned long)size_bytes);
  }
  status = lds_session_open(&net->session, &net->model, &net->device->own.device, &config, net->memory, size_bytes, &fault);
  return status == LDS_OK ? LDS_OK : fail_at(error, net, status, &fault);
}

/* A session on the device; or the process that has the device gets the artifact. */
static int open_somewhere(lds_easy *net, lds_easy_error *error) {
  const lds_device_name *name = &net->device->name;
  lds_served_config config;
  int status;
  if (name->kind != LDS_KIND_SERVED) {
    status = lds_device_driver(net->device, &net->model, error);
    return status == LDS_OK ? open_session(net, error) : status;
  }
  config.socket = name->path;
  config.priority = name->priority;
  config.period_ns = name->period_ns;
  config.deadline_ns = name->deadline_ns;
  return lds_served_open(&config, &net->model, &net->served, error);
}

static int find_ports(lds_easy *net, lds_easy_error *error) {
  const uint32_t inputs = lds_easy_input_count(net), outputs = lds_easy_output_count(net);
  lds_binding *ports = calloc((size_t)inputs + outputs + 1u, sizeof *ports);
  uint32_t k;
  if (ports == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "model '%.60s': out of memory", lds_easy_name(net));
  for (k = 0; k < inputs; ++k) (void)lds_binding_input(&net->model, net->entry.first_input + k, &ports[k]);
  for (k = 0; k < outputs; ++k) (void)lds_binding_output(&net->model, net->entry.first_output + k, &ports[inputs + k]);
  free(net->ports);
  net->ports = ports;
  return LDS_OK;
}

int lds_easy_enter(lds_easy *net, uint32_t number, lds_easy_error *error) {
  const int status = lds_model_entry(&net->model, number, &net->entry);
  if (status != LDS_OK) return lds_easy_fail(error, status, "model '%.60s': %s", lds_easy_name(net), lds_status_text(status));
  net->entry_number = number;
  return find_ports(net, error);
}

static int open_owned(lds_easy_device *device, const void *bytes, size_t size_bytes, void *file, const char *what, lds_easy **out,
                      lds_easy_error *error) {
  lds_easy *net = calloc(1, sizeof *net);
  int status;
  if (net == NULL) {
    free(file);
    return lds_easy_fail(error, LDS_ERR_MEMORY, "%s: out of memory", what);
  }
  net->file = file;
  net->device = device;
  (void)pthread_mutex_lock(&device->lock);
  ++device->users;
  status = lds_model_open(&net->model, bytes, size_bytes);
  if (status != LDS_OK) {
    (void)lds_easy_fail(error, status, "%s: %s", what, lds_status_text(status));
  } else {
    status = open_somewhere(net, error);
    if (status == LDS_OK) status = lds_easy_enter(net, 0, error);
  }
  (void)pthread_mutex_unlock(&device->lock);
  if (status != LDS_OK) {
    lds_easy_close(net);
    return status;
  }
  *out = net;
  return lds_easy_fail(error, LDS_OK, "%s", "");
}

int lds_easy_open(lds_easy_device *device, const void *bytes, size_t size_bytes, lds_easy **out, lds_easy_error *error) {
  if (device == NULL || bytes == NULL || out == NULL) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the device, the artifact's bytes or the pointer for the network is NULL");
  }
  *out = NULL;
  return open_owned(device, bytes, size_bytes, NULL, "artifact", out, error);
}

/* The whole file, whatever kind it is, or NULL with errno. */
static void *contents(const char *path, size_t *size_bytes) {
  FILE *file = fopen(path, "rb");
  size_t room = 1u << 16;
  uint8_t *bytes = NULL;
  int cause;
  if (file == NULL) return NULL;
  errno = 0;
  *size_bytes = 0;
  do {
    uint8_t *more = room > SIZE_MAX / 2 ? NULL : realloc(bytes, room * 2);
    if (more == NULL) break;
    bytes = more;
    room *= 2;
    *size_bytes += fread(bytes + *size_bytes, 1, room - *size_bytes, file);
  } while (*size_bytes == room);
  cause = ferror(file) != 0 || feof(file) == 0 ? (errno != 0 ? errno : EIO) : 0;
  (void)fclose(file);
  if (cause != 0) {
    free(bytes);
    bytes = NULL;
  }
  errno = cause;
  return bytes;
}

int lds_easy_open_file(lds_easy_device *device, const char *path, lds_easy **out, lds_easy_error *error) {
  size_t size_bytes = 0;
  void *file;
  if (device == NULL || path == NULL || out == NULL) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the device, the path of the artifact or the pointer for the network is NULL");
  }
  *out = NULL;
  file = contents(path, &size_bytes);
  if (file == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "%s: %s", path, strerror(errno));
  return open_owned(device, file, size_bytes, file, path, out, error);
}

void lds_easy_close(lds_easy *net) {
  if (net == NULL) return;
  (void)pthread_mutex_lock(&net->device->lock);
  lds_session_close(net->session);
  lds_beside_close(net->device, net->further, net->further_count);
  lds_served_close(net->served);
  (void)pthread_mutex_unlock(&net->device->lock);
  lds_easy_device_close(net->device);
  free(net->ports);
  free(net->memory);
  free(net->file);
  free(net);
}

/* --- inputs and outputs ------------------------------------------------------------------------------------------------------ */
const char *lds_easy_name(const lds_easy *net) { return lds_model_name(&net->model); }

uint32_t lds_easy_samples(const lds_easy *net) { return net->model.samples; }

uint32_t lds_easy_input_count(const lds_easy *net) { return net->entry.inputs; }

uint32_t lds_easy_output_count(const lds_easy *net) { return net->entry.outputs; }

int lds_easy_input(const lds_easy *net, uint32_t index, lds_tensor *out) {
  return index < net->entry.inputs ? lds_model_input(&net->model, net->entry.first_input + index, out) : LDS_ERR_ARGUMENT;
}

int lds_easy_output(const lds_easy *net, uint32_t index, lds_tensor *out) {
  return index < net->entry.outputs ? lds_model_output(&net->model, net->entry.first_output + index, out) : LDS_ERR_ARGUMENT;
}

typedef int (*lds_port)(const lds_easy *net, uint32_t index, lds_tensor *out);

static int find(const lds_easy *net, lds_port port, const char *name) {
  lds_tensor t;
  uint32_t k;
  for (k = 0; port(net, k, &t) == LDS_OK; ++k) {
    if (strcmp(t.name, name) == 0) return (int)k;
  }
  return -1;
}

int lds_easy_find_input(const lds_easy *net, const char *name) { return find(net, lds_easy_input, name); }

int lds_easy_find_output(const lds_easy *net, const char *name) { return find(net, lds_easy_output, name); }

int lds_easy_choose(lds_easy *net, const char *name, lds_easy_error *error) {
  lds_entry entry;
  uint32_t k;
  int status;
  if (net == NULL || name == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the network or the name of its entry is NULL");
  (void)pthread_mutex_lock(&net->device->lock);
  for (k = 0; (status = lds_model_entry(&net->model, k, &entry)) == LDS_OK && strcmp(entry.name, name) != 0;) ++k;
  if (status == LDS_OK) {
    status = lds_easy_enter(net, k, error);
  } else {
    (void)lds_easy_fail(error, status, "model '%.60s' has no entry '%.60s'", lds_easy_name(net), name);
  }
  (void)pthread_mutex_unlock(&net->device->lock);
  return status == LDS_OK ? lds_easy_fail(error, LDS_OK, "%s", "") : status;
}

static size_t sample_bytes(const lds_easy *net, lds_port port, uint32_t index) {
  lds_tensor t;
  return port(net, index, &t) == LDS_OK ? t.size_bytes / net->model.samples : 0;
}

size_t lds_easy_input_bytes(const lds_easy *net, uint32_t index) { return sample_bytes(net, lds_easy_input, index); }

size_t lds_easy_output_bytes(const lds_easy *net, uint32_t index) { return sample_bytes(net, lds_easy_output, index); }

void *lds_easy_input_data(lds_easy *net, uint32_t index) {
  const uint32_t port = net->entry.first_input + index;
  if (index >= net->entry.inputs) return NULL;
  return net->served != NULL ? lds_served_port(net->served, port) : lds_session_input(net->session, port);
}

void *lds_easy_output_data(lds_easy *net, uint32_t index) {
  const uint32_t port = net->entry.first_output + index;
  if (index >= net->entry.outputs) return NULL;
  return net->served != NULL ? lds_served_port(net->served, lds_model_input_count(&net->model) + port)
                             : lds_session_output(net->session, port);
}

uint64_t lds_easy_copied_bytes(const lds_easy *net) { return net->copied_bytes; }

uint64_t lds_easy_cycles(const lds_easy *net) { return net->cycles; }

uint64_t lds_easy_response_ns(const lds_easy *net) { return net->served == NULL ? 0 : lds_served_response_ns(net->served); }

uint64_t lds_easy_response_cycles(const lds_easy *net) { return net->served == NULL ? 0 : lds_served_response_cycles(net->served); }

uint64_t lds_easy_missed(const lds_easy *net) { return net->served == NULL ? 0 : lds_served_missed(net->served); }

/* --- running ----------------------------------------------------------------------------------------------------------------- */
/* Whether a port's array is used in place: it must hold a whole run in the device's memory, and not overlap those already bound. */
static int bound(lds_easy *net, uint32_t port, uint8_t *array, uint32_t count) {
  lds_binding *b = &net->ports[port];
  uint32_t k;
  b->data = NULL;
  if (b->size_bytes == 0 || count != net->model.samples || (uintptr_t)array % ARRAY_ALIGN != 0) return 0;
  if (!lds_device_has(net->device, array, b->size_bytes, NULL)) return 0;
  for (k = 0; k < port; ++k) {
    const lds_binding *other = &net->ports[k];
    const int is_input = port < lds_easy_input_count(net);
    const uintptr_t here = (uintptr_t)array, there = (uintptr_t)other->data;
    if (!is_input && there != 0 && here < there + other->size_bytes && there < here + b->size_bytes) return 0;
  }
  b->data = array;
  return 1;
}

/* Samples [first, first + count) to where the device has them; the rest of its batch is zeros. */
static void bring(lds_easy *net, const void *const *inputs, uint32_t first, uint32_t count) {
  uint32_t k;
  for (k = 0; k < lds_easy_input_count(net); ++k) {
    uint8_t *there = lds_easy_input_data(net, k);
    const size_t size_bytes = lds_easy_input_bytes(net, k);
    const uint8_t *here = inputs == NULL ? NULL : inputs[k];
    net->ports[k].data = NULL;
    if (here == NULL || here == there || bound(net, k, (uint8_t *)(uintptr_t)here + first * size_bytes, count)) continue;
    memcpy(there, here + first * size_bytes, count * size_bytes);
    memset(there + count * size_bytes, 0, (net->model.samples - count) * size_bytes);
    net->copied_bytes += count * size_bytes;
  }
}

/* Outputs that are written directly to the caller's arrays. */
static void prepare(lds_easy *net, void *const *outputs, uint32_t first, uint32_t count) {
  const uint32_t inputs = lds_easy_input_count(net);
  uint32_t k;
  for (k = 0; k < lds_easy_output_count(net); ++k) {
    uint8_t *here = outputs == NULL ? NULL : outputs[k];
    net->ports[inputs + k].data = NULL;
    if (here != NULL) (void)bound(net, inputs + k, here + first * lds_easy_output_bytes(net, k), count);
  }
}

static void take(lds_easy *net, void *const *outputs, uint32_t first, uint32_t count) {
  uint32_t k;
  for (k = 0; k < lds_easy_output_count(net); ++k) {
    const uint8_t *there = lds_easy_output_data(net, k);
    const size_t size_bytes = lds_easy_output_bytes(net, k);
    uint8_t *here = outputs == NULL ? NULL : outputs[k];
    if (here == NULL || here == there || net->ports[lds_easy_input_count(net) + k].data != NULL) continue;
    memcpy(here + first * size_bytes, there, count * size_bytes);
    net->copied_bytes += count * size_bytes;
  }
}

/* Whether an array is the network's own device memory, which holds one run. */
static int in_place(const void *array, const void *memory) { return array == NULL || array == memory; }

static int all_are_copied(lds_easy *net, const void *const *inputs, void *const *outputs) {
  uint32_t k;
  for (k = 0; k < lds_easy_input_count(net); ++k) {
    if (inputs == NULL || in_place(inputs[k], lds_easy_input_data(net, k))) return 0;
  }
  for (k = 0; k < lds_easy_output_count(net); ++k) {
    if (outputs == NULL || in_place(outputs[k], lds_easy_output_data(net, k))) return 0;
  }
  return 1;
}

/* One run of the device, on what was brought. */
static int run_once(lds_easy *net, uint64_t *cycles, lds_easy_error *error) {
  lds_counters counters = {0};
  int status;
  if (net->served != NULL) return lds_served_run(net->served, net->entry_number, cycles, error);
  (void)lds_session_bind(net->session, net->ports, net->entry.inputs + net->entry.outputs);
  status = lds_session_start_entry(net->session, net->entry_number);
  if (status == LDS_OK) status = lds_session_wait(net->session, UINT64_MAX);
  (void)lds_session_bind(net->session, NULL, 0);
  if (status != LDS_OK) return lds_easy_fail_run(net, status, error);
  lds_session_counters(net->session, &counters);
  *cycles = counters.cycles;
  return LDS_OK;
}

int lds_easy_run(lds_easy *net, const void *const *inputs, void *const *outputs, uint32_t samples, lds_easy_error *error) {
  int status = LDS_OK;
  uint64_t cycles = 0, spent = 0;
  uint32_t first;
  if (net == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the network to run is NULL");
  (void)pthread_mutex_lock(&net->device->lock);
  if (samples > net->model.samples && !all_are_copied(net, inputs, outputs)) {
    status =
        lds_easy_fail(error, LDS_ERR_ARGUMENT, "model '%.60s': %lu samples do not fit the device's memory, which holds %lu: give arrays",
                      lds_easy_name(net), (unsigned long)samples, (unsigned long)net->model.samples);
  }
  for (first = 0; first < samples && status == LDS_OK; first += net->model.samples) {
    const uint32_t left = samples - first, count = left < net->model.samples ? left : net->model.samples;
    bring(net, inputs, first, count);
    prepare(net, outputs, first, count);
    status = run_once(net, &spent, error);
    cycles += spent;
    if (status == LDS_OK) take(net, outputs, first, count);
  }
  if (status == LDS_OK) net->cycles = cycles;
  (void)pthread_mutex_unlock(&net->device->lock);
  return status == LDS_OK ? lds_easy_fail(error, LDS_OK, "%s", "") : status;
}

int lds_easy_reset(lds_easy *net, lds_easy_error *error) {
  int status;
  if (net == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the network to reset is NULL");
  (void)pthread_mutex_lock(&net->device->lock);
  if (net->served != NULL) {
    status = lds_served_reset(net->served, error);
  } else {
    status = lds_session_reset(net->session);
    (void)lds_easy_fail(error, status, "%s", status == LDS_OK ? "" : lds_status_text(status));
  }
  (void)pthread_mutex_unlock(&net->device->lock);
  return status;
}
