/* Two programs of two devices, between which no data flows: both are started before either is waited for, and faults of one end both.
 *
 * In:   files: an artifact with such programs in steps 2 and 3, its input, the outputs wanted, one behind the other; the name of the second
 *       device; a file with its configuration.
 * Out:  the order of starts (S) and looks (L) with the device's number, of one run; then counts as JSON. Exit status 1 with a line that
 *       says what was wrong.
 * Next: test_beside.py, which makes it for the address and the thread sanitizer.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_hal_sim.h"
#include "lds_isa.h"
#include "loadstone.h"

#define MUST(condition, status)                                                                                      \
  do {                                                                                                               \
    if (!(condition)) {                                                                                              \
      (void)fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #condition, status, lds_status_text(status)); \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

enum { POOL = 1 << 20, LARGEST = 1 << 20, DEVICES = 2, LOG = 64 };

static const uint64_t hang_ns = 50u * 1000u * 1000u, patient_ns = 60ull * 1000u * 1000u * 1000u;

/* A simulated device that notes what is done to its registers. */
typedef struct watched {
  lds_hal hal;
  const lds_hal *inner;
  lds_hal_sim *sim;
  lds_device device;
  char number;
} watched;

static watched both[DEVICES];
static char order[LOG];
static size_t noted;
static lds_model model;
static uint8_t input[LARGEST], wanted[LARGEST];

static size_t read_file(const char *path, void *bytes) {
  FILE *f = fopen(path, "rb");
  size_t size = 0;
  MUST(f != NULL, LDS_ERR_ARGUMENT);
  size = fread(bytes, 1, LARGEST, f);
  (void)fclose(f);
  return size;
}

static void note(char what, char who) {
  if (noted + 3 > LOG || (what == 'L' && noted == 0)) return; /* a look before any start: nobody works */
  order[noted++] = what;
  order[noted++] = who;
}

static uint32_t read32(void *ctx, uint32_t offset) {
  const watched *w = ctx;
  if (offset == LDS_NATIVE_STATUS) note('L', w->number);
  return w->inner->read32(w->inner->ctx, offset);
}

static void write32(void *ctx, uint32_t offset, uint32_t value) {
  const watched *w = ctx;
  if (offset == LDS_NATIVE_CTRL && value == LDS_CTRL_START) note('S', w->number);
  w->inner->write32(w->inner->ctx, offset, value);
}

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  const watched *w = ctx;
  return w->inner->dma_alloc(w->inner->ctx, size_bytes, align_bytes, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) {
  const watched *w = ctx;
  w->inner->dma_free(w->inner->ctx, buffer);
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  const watched *w = ctx;
  return w->inner->irq_wait(w->inner->ctx, timeout_ns);
}

static void rest(void *ctx, uint64_t ns) {
  const watched *w = ctx;
  w->inner->rest(w->inner->ctx, ns);
}

static uint64_t now_ns(void *ctx) {
  const watched *w = ctx;
  return w->inner->now_ns(w->inner->ctx);
}

static int hw_reset(void *ctx) {
  const watched *w = ctx;
  return w->inner->hw_reset(w->inner->ctx);
}

static void watch(uint32_t k, lds_hal_sim *sim) {
  watched *w = &both[k];
  MUST(sim != NULL, LDS_ERR_MEMORY);
  w->sim = sim;
  w->inner = lds_hal_sim_hal(sim);
  w->number = (char)('0' + k);
  w->hal = *w->inner;
  w->hal.ctx = w;
  w->hal.read32 = read32;
  w->hal.write32 = write32;
  w->hal.dma_alloc = dma_alloc;
  w->hal.dma_free = dma_free;
  w->hal.irq_wait = irq_wait;
  w->hal.rest = rest;
  w->hal.now_ns = now_ns;
  w->hal.hw_reset = hw_reset;
  MUST(lds_device_open(&w->device, &w->hal, &lds_registers_native, 0) == LDS_OK, 0);
}

static lds_session *open_session(const char *second, uint64_t hang, void **memory) {
  static lds_accelerator accelerator;
  lds_session_config config;
  lds_session *session;
  lds_fault fault;
  size_t size;
  int status;
  accelerator.name = second;
  accelerator.device = &both[1].device;
  lds_session_config_default(&config);
  lds_session_config_accelerators(&config, &accelerator, 1);
  config.hang_ns = hang;
  size = lds_session_size_bytes(&model, &config);
  *memory = malloc(size);
  status = lds_session_open(&session, &model, &both[0].device, &config, *memory, size, &fault);
  MUST(status == LDS_OK, status);
  return session;
}

static void check_run(lds_session *session) {
  lds_tensor t;
  size_t at = 0;
  uint32_t k;
  int status;
  MUST(lds_model_input(&model, 0, &t) == LDS_OK, 0);
  status = lds_session_set_input(session, 0, input, t.size_bytes);
  MUST(status == LDS_OK, status);
  status = lds_session_run(session);
  MUST(status == LDS_OK, status);
  for (k = 0; lds_model_output(&model, k, &t) == LDS_OK; ++k) {
    MUST(memcmp(lds_session_output(session, k), wanted + at, t.size_bytes) == 0, (int)k);
    at += t.size_bytes;
  }
}

/* Both devices are idle: nothing runs, whatever has happened. */
static void check_idle(void) {
  lds_device_state state;
  uint32_t k;
  for (k = 0; k < DEVICES; ++k) {
    lds_registers_native.state(both[k].device.hal, &state);
    MUST(state.state != LDS_STATE_RUNNING, (int)k);
    MUST(both[k].device.dead == 0 && both[k].device.claimed == 0, (int)k);
  }
}

static int is_in_step(const lds_session *session, uint32_t step) {
  lds_fault fault;
  lds_session_fault(session, &fault);
  return fault.step == step;
}

/* A fault of one device while the other works or hangs, and a run that is waited for, stopped, or closed. */
static int one_fault(lds_session *patient, lds_session **hasty, const char *second, void **memory, uint32_t faulty, int fault, int other,
                     int end) {
  int status;
  MUST(lds_simdev_fault(lds_hal_sim_device(both[faulty].sim), fault, 0, 1) == LDS_SIM_OK, 0);
  MUST(lds_simdev_fault(lds_hal_sim_device(both[1u - faulty].sim), other, 0, 1) == LDS_SIM_OK, 0);
  if (fault == LDS_FAULT_BUS_ERROR && other == LDS_FAULT_NONE) { /* nothing hangs */
    status = lds_session_run(patient);
    MUST(status == LDS_ERR_DEVICE && is_in_step(patient, 2u + faulty), status);
    check_idle();
    return 1;
  }
  status = lds_session_start(*hasty);
  MUST(status == LDS_OK, status);
  if (end == 0) {
    status = lds_session_wait(*hasty, UINT64_MAX);
    MUST(status == LDS_ERR_HUNG || (status == LDS_ERR_DEVICE && fault == LDS_FAULT_BUS_ERROR), status);
  } else if (end == 1) {
    status = lds_session_stop(*hasty);
    MUST(status == LDS_OK, status);
  } else {
    lds_session_close(*hasty);
    free(*memory);
    *hasty = open_session(second, hang_ns, memory);
  }
  check_idle();
  return 0;
}

int main(int argc, char **argv) {
  static uint8_t file[LARGEST], fingerprint[LARGEST];
  static const int faults[] = {LDS_FAULT_HANG, LDS_FAULT_HANG_RESET, LDS_FAULT_HANG_HW_RESET, LDS_FAULT_BUS_ERROR};
  static const int others[] = {LDS_FAULT_NONE, LDS_FAULT_HANG};
  lds_hw_config config;
  lds_session *patient, *hasty;
  void *memory[2];
  uint32_t k, runs = 0, errors = 0;
  int status;
  MUST(argc == 6, argc); /* model, input, outputs, name and configuration of the second device */
  status = lds_model_open(&model, file, read_file(argv[1], file));
  MUST(status == LDS_OK, status);
  (void)read_file(argv[2], input);
  (void)read_file(argv[3], wanted);
  MUST(read_file(argv[5], fingerprint) == sizeof config, 0);
  memcpy(&config, lds_model_fingerprint(&model, 0), sizeof config);
  watch(0, lds_hal_sim_create(&config, 64, LDS_SIMDEV_NATIVE, POOL, 0));
  memcpy(&config, fingerprint, sizeof config);
  watch(1, lds_hal_sim_create_beside(both[0].sim, &config, 64, LDS_SIMDEV_NATIVE));
  patient = open_session(argv[4], patient_ns, &memory[0]);
  hasty = open_session(argv[4], hang_ns, &memory[1]);
  noted = 0;
  check_run(patient);
  (void)printf("%.6s\n", order);
  for (k = 0; k < 2u * 4u * 2u * 3u; ++k) {
    errors += (uint32_t)one_fault(patient, &hasty, argv[4], &memory[1], k % 2u, faults[k / 2u % 4u], others[k / 8u % 2u], (int)(k / 16u));
    check_run(patient);
    ++runs;
  }
  (void)printf("{\"runs\": %lu, \"errors\": %lu}\n", (unsigned long)runs, (unsigned long)errors);
  lds_session_close(hasty);
  lds_session_close(patient);
  free(memory[0]);
  free(memory[1]);
  lds_hal_sim_destroy(both[1].sim);
  lds_hal_sim_destroy(both[0].sim);
  return 0;
}
