/* Fuzzing: a file that is hostile is opened, validated and run, its programs on the simulator, under the sanitizers.
 *
 * In:   bytes from libFuzzer. The first 16 (magic, version, size, checksum) are made to fit, so that what
 *       lies behind them is reached; one size in sixteen says that they are left alone instead.
 * Out:  how many were opened and how many run; a crash, a hang, a report of a sanitizer, or a validated program that the simulator
 *       does not execute is the finding.
 * Next: test_c.py builds it, and runs it for a few seconds, or for a minute in CI.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "heap.h"
#include "simulated_device.h"

enum { LARGEST = 1 << 16, MEMORY = 1 << 20, RAW_SIZES = 16, MOST_ENTRIES = 4 };

static unsigned long opened, executed;

static void say_counts(void) { (void)fprintf(stderr, "stat::opened: %lu\nstat::executed: %lu\n", opened, executed); }

/* lds_crc32 eight bits at a time: its four would be half of what a run takes. Both are in uncovered.txt. */
static uint32_t crc32(const uint8_t *p, size_t n) {
  static uint32_t table[256];
  uint32_t crc = 0xFFFFFFFFu;
  size_t k;
  uint8_t byte;
  if (table[1] == 0) {
    for (k = 0; k < 256; ++k) {
      byte = (uint8_t)k;
      table[255u - k] = ~lds_crc32(&byte, 1) ^ 0x00FFFFFFu;
    }
  }
  for (k = 0; k < n; ++k) crc = crc >> 8 ^ table[(crc ^ p[k]) & 255u];
  return ~crc;
}

static void put(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
  p[2] = (uint8_t)(v >> 16);
  p[3] = (uint8_t)(v >> 24);
}

enum { OLD = 5, WITH_ENTRIES = 7 };

static void seal(uint8_t *p, size_t size) {
  memcpy(p, "LDSM", 4);
  put(p + 4, p[4] == WITH_ENTRIES ? WITH_ENTRIES : OLD);
  put(p + 8, (uint32_t)size);
  put(p + 12, crc32(p + 16, size - 16));
}

static int nothing(void *ctx, lds_session *session, uint32_t step) {
  (void)ctx;
  (void)session;
  (void)step;
  return LDS_OK;
}

/* Another device beside the model's own; loadstone.isa.c_table writes its instructions. */
extern const lds_insn_table npu_table;

static void run(const lds_model *model, uint8_t *pool) {
  simulated_device f;
  fake_device other;
  lds_device device, npu;
  const lds_accelerator accelerator = {"npu", &npu, &npu_table, NULL};
  lds_session_config config;
  lds_session *session;
  lds_entry entry;
  size_t size, given;
  uint32_t k;
  void *memory;
  simulated_device_open(&f, model, pool, MEMORY);
  if (lds_device_open(&device, &f.fake.hal, &lds_registers_native, 0) != LDS_OK) abort();
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  config.external = nothing;
  fake_device_open(&other, lds_crc32(npu_table.fingerprint, LDS_FINGERPRINT_BYTES), pool, MEMORY);
  if (lds_device_open(&npu, &other.hal, &lds_registers_native, 0) != LDS_OK) abort();
  lds_session_config_accelerators(&config, &accelerator, 1);
  size = lds_session_size_bytes(model, &config);
  given = size < MEMORY ? size : MEMORY;
  memory = malloc(given); /* of exactly this size: the sanitizer sees a byte too many */
  if (lds_session_open(&session, model, &device, &config, memory, given, NULL) == LDS_OK) {
    if (given < size) abort();
    executed += lds_session_run(session) == LDS_OK;
    for (k = 0; lds_model_entry(model, k, &entry) == LDS_OK && k < MOST_ENTRIES; ++k) {
      if (lds_session_start_entry(session, k) == LDS_OK) executed += lds_session_wait(session, UINT64_MAX) == LDS_OK;
    }
    lds_session_close(session);
  }
  free(memory);
  if (f.fake.pool.used != 0) abort(); /* everything was given back */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t *pool;
  static void *pool_owner;
  lds_model model;
  lds_tensor tensor;
  uint32_t k;
  uint8_t *copy;
  if (size > LARGEST) return 0;
  if (pool == NULL && ((pool = lds_heap_alloc(MEMORY, &pool_owner)) == NULL || atexit(say_counts) != 0)) abort();
  copy = malloc(size + 1u);
  memcpy(copy, data, size);
  if (size >= 112 && size % RAW_SIZES != RAW_SIZES - 1) seal(copy, size);
  if (lds_model_open(&model, copy, size) == LDS_OK) {
    (void)lds_model_name(&model);
    for (k = 0; lds_model_input(&model, k, &tensor) == LDS_OK; ++k) continue;
    for (k = 0; lds_model_output(&model, k, &tensor) == LDS_OK; ++k) continue;
    ++opened;
    run(&model, pool);
  }
  free(copy);
  return 0;
}
