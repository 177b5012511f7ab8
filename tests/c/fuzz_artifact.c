/* Fuzzing: a file that is hostile is opened, validated, and its host steps are run, under the sanitizers.
 *
 * In:   bytes from libFuzzer. The first 16 (magic, version, size, checksum) and the fingerprint's hash are made to fit, so that what
 *       lies behind them is reached; one bit of the size says whether they are left alone instead.
 * Out:  nothing: a crash, a hang or a report of a sanitizer is the finding.
 * Next: test_c.py builds it, and runs it for a few seconds, or for a minute in CI.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "lds_isa.h"
#include "lds_pool.h"
#include "loadstone.h"

enum { LARGEST = 1 << 16, MEMORY = 1 << 20, BLOCKS = 16 };

static uint32_t crc32(const uint8_t *p, size_t n) {
  uint32_t crc = 0xFFFFFFFFu;
  size_t k;
  int bit;
  for (k = 0; k < n; ++k) {
    crc ^= p[k];
    for (bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

static void put(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
  p[2] = (uint8_t)(v >> 16);
  p[3] = (uint8_t)(v >> 24);
}

static void seal(uint8_t *p, size_t size) {
  memcpy(p, "LDSM\1\0\0\0", 8);
  put(p + 8, (uint32_t)size);
  put(p + 36, crc32(p + 16, 20));
  put(p + 12, crc32(p + 16, size - 16));
}

/* --- a device that is done at once, with memory of its own ------------------------------------------------------------------- */
typedef struct fake {
  lds_pool pool;
  lds_pool_block blocks[BLOCKS];
  uint32_t config_hash, state;
} fake;

static uint32_t read32(void *ctx, uint32_t offset) {
  const fake *f = ctx;
  if (offset == LDS_NATIVE_ID) return LDS_NATIVE_ID_VALUE;
  if (offset == LDS_NATIVE_VERSION) return LDS_NATIVE_VERSION_VALUE;
  if (offset == LDS_NATIVE_CONFIG_HASH) return f->config_hash;
  return offset == LDS_NATIVE_STATUS ? f->state : 0;
}

static void write32(void *ctx, uint32_t offset, uint32_t value) {
  if (offset == LDS_NATIVE_CTRL) ((fake *)ctx)->state = value == LDS_CTRL_START ? LDS_STATE_DONE : LDS_STATE_IDLE;
}

static int dma_alloc(void *ctx, size_t size, size_t align, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((fake *)ctx)->pool, size, align, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((fake *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  (void)ctx;
  return 0;
}

static int nothing(void *ctx, lds_session *session, uint32_t step) {
  (void)ctx;
  (void)session;
  (void)step;
  return LDS_OK;
}

static void run(const lds_model *model, uint8_t *pool) {
  static const lds_hal callbacks = {LDS_HAL_ABI_VERSION, NULL, read32, write32, dma_alloc, dma_free, NULL, NULL, NULL, now_ns, NULL};
  fake f;
  lds_hal hal = callbacks;
  lds_device device;
  lds_session_config config;
  lds_session *session;
  size_t size;
  void *memory;
  memset(&f, 0, sizeof f);
  f.pool.cpu = pool;
  f.pool.size_bytes = MEMORY;
  f.pool.blocks = f.blocks;
  f.pool.capacity = BLOCKS;
  f.config_hash = model->config_hash;
  hal.ctx = &f;
  if (lds_device_open(&device, &hal, &lds_registers_native, 0) != LDS_OK) abort();
  lds_session_config_default(&config);
  config.external = nothing;
  size = lds_session_size_bytes(model, &config);
  if (size > MEMORY) return;
  memory = malloc(size); /* of exactly this size: the sanitizer sees a byte too many */
  if (lds_session_open(&session, model, &device, &config, memory, size, NULL) == LDS_OK) {
    (void)lds_session_run(session);
    lds_session_close(session);
  }
  free(memory);
  if (f.pool.used != 0) abort(); /* everything was given back */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t *pool;
  lds_model model;
  lds_tensor tensor;
  uint32_t k;
  uint8_t *copy;
  if (size > LARGEST) return 0;
  if (pool == NULL) pool = calloc(1, MEMORY);
  copy = malloc(size + 1u);
  memcpy(copy, data, size);
  if (size >= 136 && (size & 1u) == 0) seal(copy, size);
  if (lds_model_open(&model, copy, size) == LDS_OK) {
    (void)lds_model_name(&model);
    for (k = 0; lds_model_input(&model, k, &tensor) == LDS_OK; ++k) continue;
    for (k = 0; lds_model_output(&model, k, &tensor) == LDS_OK; ++k) continue;
    run(&model, pool);
  }
  free(copy);
  return 0;
}
