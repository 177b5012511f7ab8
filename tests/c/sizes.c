/* What a session needs of memory, and that it keeps to it: with a size_t of 64 and of 32 bits, under the sanitizers.
 *
 * In:   artifacts.
 * Out:  for each a line: lds_session_size_bytes, the status of opening it in so much memory (in a little, where that is too much), and
 *       in a byte less.
 * Next: test_c.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_device.h"

enum { LITTLE = 1 << 16, MUCH = 1 << 24, POOL = 1 << 22, ODD = 5 };

static uint8_t pool[POOL];

/* At an odd address, of exactly this size: the sanitizer sees a byte too many. */
static int open_in(const lds_model *model, const lds_session_config *config, size_t size) {
  uint8_t *memory = malloc(size + ODD);
  fake_device f;
  lds_device device;
  lds_session *session;
  int status;
  if (memory == NULL) exit(3);
  fake_device_open(&f, lds_model_config_hash(model, 0), pool, POOL);
  status = lds_device_open(&device, &f.hal, &lds_registers_native, 0);
  if (status == LDS_OK) status = lds_session_open(&session, model, &device, config, memory + ODD, size, NULL);
  if (status == LDS_OK) {
    if (lds_session_run(session) != LDS_OK) exit(4);
    lds_session_close(session);
  }
  if (f.pool.used != 0) exit(5);
  free(memory);
  return status;
}

static int nothing(void *ctx, lds_session *session, uint32_t step) {
  (void)ctx;
  (void)session;
  (void)step;
  return LDS_OK;
}

static void measure(const char *path) {
  FILE *file = fopen(path, "rb");
  uint8_t *bytes = malloc(MUCH);
  lds_model model;
  lds_session_config config;
  size_t size, given;
  if (file == NULL || bytes == NULL) exit(2);
  size = fread(bytes, 1, MUCH, file);
  (void)fclose(file);
  if (lds_model_open(&model, bytes, size) != LDS_OK) exit(2);
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  config.external = nothing;
  size = lds_session_size_bytes(&model, &config);
  given = size <= MUCH ? size : LITTLE;
  (void)printf("%llu %d", (unsigned long long)size, open_in(&model, &config, given));
  (void)printf(" %d\n", open_in(&model, &config, given - 1u));
  free(bytes);
}

int main(int argc, char **argv) {
  int k;
  for (k = 1; k < argc; ++k) measure(argv[k]);
  return 0;
}
