/* Where further devices of an artifact are looked for, without a board.
 *
 * In:   a device's name; an artifact on stdin.
 * Out:  the place of each on a line of stdout; or the error's line, and exit status 1.
 * Next: test_beside.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "../../runtime/hosts/beside.h"

#include <stdio.h>
#include <string.h>

int lds_driver_open(lds_easy_device *d, const lds_model *model, uint32_t number, const char *place, lds_driver *out,
                    lds_easy_error *error) {
  (void)d;
  (void)model;
  (void)out;
  (void)error;
  (void)printf("%lu %s\n", (unsigned long)number, place);
  return LDS_OK;
}

void lds_driver_close(lds_driver *driver) { (void)driver; }

int main(int argc, char **argv) {
  static uint8_t bytes[1 << 16];
  static lds_easy_device device;
  lds_accelerator *found = NULL;
  lds_easy_error error;
  lds_model model;
  uint32_t count = 0, turn;
  int status = argc == 2 ? lds_device_name_read(argv[1], &device.name, &error) : LDS_ERR_ARGUMENT;
  if (argc != 2 || lds_model_open(&model, bytes, fread(bytes, 1, sizeof bytes, stdin)) != LDS_OK) return 2;
  strcpy(device.text, argv[1]);
  for (turn = 0; turn < 2 && status == LDS_OK; ++turn) { /* the second finds what the first has opened */
    status = lds_beside_open(&device, &model, &found, &count, &error);
    if (status == LDS_OK) lds_beside_close(&device, found, count);
  }
  lds_beside_close_all(&device);
  if (status != LDS_OK) (void)printf("%s\n", error.text);
  return status == LDS_OK ? 0 : 1;
}
