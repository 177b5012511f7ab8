/* mlif.h over lds_easy.h: inputs and outputs are the device's own memory, nothing is copied.
 *
 * In:   run_config.h of the build: LOADSTONE_MODEL, an artifact's file; LOADSTONE_DEVICE, a device's name (lds_easy.h), before which the
 *       environment's LOADSTONE_DEVICE is asked.
 * Out:  mlif_*; cycles as lines that MLonMCU reads ("# Total Cycles: 86000").
 * Next: main.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mlif.h"

#include <stdio.h>
#include <stdlib.h>

#include "exit.h"
#include "lds_easy.h"
#include "run_config.h"

static lds_easy_device *device;
static lds_easy *net;
static uint64_t cycles;

static int failed(const lds_easy_error *error) {
  (void)printf("loadstone: %s\n", error->text);
  return EXIT_MLIF_ERROR;
}

int mlif_init(void) {
  lds_easy_error error;
  const char *name = getenv("LOADSTONE_DEVICE");
  if (name == NULL || name[0] == '\0') name = LOADSTONE_DEVICE;
  if (lds_easy_device_open(name, &device, &error) != LDS_OK || lds_easy_open_file(device, LOADSTONE_MODEL, &net, &error) != LDS_OK) {
    return failed(&error);
  }
  return 0;
}

int mlif_num_inputs(void) { return (int)lds_easy_input_count(net); }

int mlif_num_outputs(void) { return (int)lds_easy_output_count(net); }

void *mlif_input_ptr(int index) { return lds_easy_input_data(net, (uint32_t)index); }

void *mlif_output_ptr(int index) { return lds_easy_output_data(net, (uint32_t)index); }

int mlif_input_sz(int index) { return (int)lds_easy_input_bytes(net, (uint32_t)index); }

int mlif_output_sz(int index) { return (int)lds_easy_output_bytes(net, (uint32_t)index); }

int mlif_invoke(void) {
  const void *inputs[64] = {NULL};
  void *outputs[64] = {NULL};
  lds_easy_error error;
  if (mlif_num_inputs() > 64 || mlif_num_outputs() > 64) {
    (void)printf("loadstone: %d inputs and %d outputs, of which MLIF takes 64 each\n", mlif_num_inputs(), mlif_num_outputs());
    return EXIT_MLIF_ERROR;
  }
  if (lds_easy_run(net, inputs, outputs, 1, &error) != LDS_OK) return failed(&error);
  cycles += lds_easy_cycles(net);
  return 0;
}

int mlif_deinit(void) {
  (void)printf("# Total Cycles: %llu\n", (unsigned long long)cycles);
  lds_easy_close(net);
  lds_easy_device_close(device);
  return 0;
}
