/* Runs a model on the simulator in this process.
 *
 * In:   DEVICE MODEL INPUTS RUNS; DEVICE: a file of lds_hw_config; with INPUTS - a MODEL that is several, packed.
 * Out:  run_cases(), or share_cases(), over the HAL of the simulator.
 * Next: tests/vta/simulator/test_kernels.py and tests/board/test_user.py read the lines.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_hal_sim.h"
#include "run_cases.h"
#include "share_cases.h"

enum { BUS_BITS = 64, MEMORY_BYTES = 4 << 20, POOL_BYTES = 64 << 20 };

static void print(const char *text) { fputs(text, stdout); }

/* The whole file; the process ends without it. */
static void *contents(const char *path, size_t *size_bytes) {
  FILE *file = fopen(path, "rb");
  long size;
  void *bytes;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) <= 0 || fseek(file, 0, SEEK_SET) != 0) exit(2);
  *size_bytes = (size_t)size;
  bytes = malloc(*size_bytes);
  if (bytes == NULL || fread(bytes, 1, *size_bytes, file) != *size_bytes) exit(2);
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  lds_hw_config config;
  lds_hal_sim *sim;
  size_t config_bytes;
  const void *device;
  board b = {0};
  int shares;
  if (argc != 5) return 2;
  device = contents(argv[1], &config_bytes);
  if (config_bytes != sizeof config) return 2;
  memcpy(&config, device, sizeof config);
  sim = lds_hal_sim_create(&config, BUS_BITS, LDS_SIMDEV_NATIVE, POOL_BYTES, 0);
  if (sim == NULL) return 2;
  b.hal = lds_hal_sim_hal(sim);
  b.registers = &lds_registers_native;
  b.model = contents(argv[2], &b.model_bytes);
  shares = strcmp(argv[3], "-") == 0;
  if (!shares) b.inputs = contents(argv[3], &b.inputs_bytes);
  b.runs = (uint32_t)strtoul(argv[4], NULL, 0);
  b.memory_bytes = MEMORY_BYTES;
  b.memory = malloc(b.memory_bytes);
  b.print = print;
  return b.memory == NULL ? 2 : shares ? share_cases(&b) : run_cases(&b);
}
