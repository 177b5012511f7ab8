/* What device.h says.
 *
 * In:   uio:, devmem: or simd: and what is behind it.
 * Out:  the HAL of driver/ that is for it.
 * Next: lds_hal.h, where none of them fits.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_hal_linux.h"
#include "lds_hal_simd.h"

int check(int status, const char *what) {
  if (status == LDS_OK) return 0;
  fprintf(stderr, "model: %s: %s (%d)\n", what, lds_status_text(status), status);
  exit(1);
}

static lds_linux boards[1 + OTHER_DEVICES];
static const char *no_memory = ""; /* why the first device has no more */

const char *memory_shortage(void) { return no_memory; }

const lds_hal *open_device(const char *device, uint32_t number) {
  lds_linux *const board = &boards[number];
  lds_hal_simd *simd;
  unsigned long long address, bytes;
  char path[200], second[200];
  int status = LDS_HAL_FAILED;
  if (sscanf(device, "uio:%199[^,],%199s", path, second) == 2) {
    status = lds_linux_open_uio(board, path, MODEL_REGISTER_BYTES, second, MODEL_BUS_OFFSET, NULL);
  } else if (sscanf(device, "uio:%199s", path) == 1) {
    status = lds_linux_open_uio(board, path, MODEL_REGISTER_BYTES, NULL, MODEL_BUS_OFFSET, NULL);
  } else if (sscanf(device, "devmem:%lli+%lli", (long long *)&address, (long long *)&bytes) == 2) {
#ifdef MODEL_REGISTER_BASE_UNKNOWN
    fputs("model: devmem: the device's configuration has no register_base: uio:/dev/uio0 has it from the device tree\n", stderr);
    exit(1);
#endif
    status = lds_linux_open_devmem(board, "/dev/mem", MODEL_REGISTER_BASE, MODEL_REGISTER_BYTES, address, (size_t)bytes, MODEL_BUS_OFFSET);
  } else if (strncmp(device, "simd:", 5) == 0) {
    if (lds_hal_simd_open(device + 5, &simd) == LDS_HAL_OK) {
      if (number == 0) no_memory = lds_hal_simd_message(simd);
      return lds_hal_simd_hal(simd);
    }
    (void)snprintf(board->message, sizeof board->message, "%s: no simulator answers there", device + 5);
  } else {
    fputs(usage, stderr);
    exit(2);
  }
  if (number == 0) no_memory = board->message;
  if (status == LDS_HAL_OK) return &board->hal;
  fprintf(stderr, "model: %s\n", board->message);
  exit(1);
}
