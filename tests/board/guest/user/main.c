/* A program of any Linux machine that runs a model on `loadstone simd`.
 *
 * In:   SOCKET REGISTERS MODEL INPUTS RUNS; with INPUTS - a MODEL that is several, packed
 * Out:  run_cases(), or share_cases(), over the simd HAL.
 * Next: run_cases.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_hal_simd.h"
#include "run_cases.h"
#include "share_cases.h"

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
  lds_hal_simd *simd;
  board b = {0};
  int shares;
  if (argc != 6 || lds_hal_simd_open(argv[1], &simd) != LDS_HAL_OK) return 2;
  b.hal = lds_hal_simd_hal(simd);
  b.registers = lds_registers_named(argv[2]);
  b.model = contents(argv[3], &b.model_bytes);
  shares = strcmp(argv[4], "-") == 0;
  if (!shares) b.inputs = contents(argv[4], &b.inputs_bytes);
  b.runs = (uint32_t)strtoul(argv[5], NULL, 0);
  b.memory_bytes = 4u << 20;
  b.memory = malloc(b.memory_bytes);
  b.print = print;
  return b.memory == NULL || b.registers == NULL ? 2 : shares ? share_cases(&b) : run_cases(&b);
}
