/* The application of an exported module whose model has programs of two devices: both served by `loadstone simd`, with one memory.
 *
 * In:   an exported project; argv: the socket of each device; the inputs of one run on stdin.
 * Out:  the outputs on stdout; the exit status is that of the runtime, negated.
 * Next: tests/commands/test_exported_accelerators.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "lds_hal_simd.h"
#include "model.h"

static char **sockets;

static const lds_hal *served(uint32_t number) {
  lds_hal_simd *simd;
  if (lds_hal_simd_open(sockets[number], &simd) != LDS_HAL_OK) exit(99);
  return lds_hal_simd_hal(simd);
}

void board_accelerator(const lds_hal *board, uint32_t index, lds_hal *hal) {
  (void)board;
  *hal = *served(1 + index);
}

int main(int argc, char **argv) {
  lds_model model;
  lds_device device;
  lds_session_config settings;
  lds_session *session;
  lds_tensor t;
  lds_fault fault;
  uint32_t k;
  void *memory = malloc(MODEL_SESSION_BYTES);
  int status = lds_model_open(&model, model_bytes, (size_t)(model_bytes_end - model_bytes));
  sockets = argv + 1;
  if (argc != 2 + MODEL_ACCELERATORS) return 98;
  if (status == LDS_OK) status = lds_device_open(&device, served(0), &MODEL_REGISTERS, MODEL_CONFIG_HASH);
  lds_session_config_default(&settings);
  if (status == LDS_OK) status = model_accelerators(device.hal, &settings);
  if (status == LDS_OK) status = lds_session_open(&session, &model, &device, &settings, memory, MODEL_SESSION_BYTES, &fault);
  if (status != LDS_OK) return -status;
  for (k = 0; lds_model_input(&model, k, &t) == LDS_OK; ++k) {
    if (fread(lds_session_input(session, k), 1, t.size_bytes, stdin) != t.size_bytes) return 97;
  }
  status = lds_session_run(session);
  for (k = 0; status == LDS_OK && lds_model_output(&model, k, &t) == LDS_OK; ++k) {
    (void)fwrite(lds_session_output(session, k), 1, t.size_bytes, stdout);
  }
  lds_session_close(session);
  free(memory);
  return -status;
}
