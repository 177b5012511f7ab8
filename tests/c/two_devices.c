/* The application of an exported module whose model has programs of two devices: both simulated, with one memory.
 *
 * In:   an exported project; SECOND_DEVICE, the bytes of the second one's configuration; input 0 of one run on stdin.
 * Out:  output 0 on stdout; the exit status is that of the runtime, negated.
 * Next: tests/commands/test_exported_accelerators.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "lds_hal_sim.h"
#include "model.h"
static lds_hal_sim *sims[2];
static const lds_hw_config *config(const unsigned char *bytes) {
  static lds_hw_config made;
  memcpy(&made, bytes, sizeof made);
  return &made;
}
void board_accelerator(const lds_hal *board, uint32_t index, lds_hal *hal) {
  static const unsigned char second[20] = {SECOND_DEVICE};
  (void)board;
  sims[1] = lds_hal_sim_create_beside(sims[0], config(second), 64, LDS_SIMDEV_NATIVE);
  *hal = *lds_hal_sim_hal(sims[1]);
  if (index != 0) hal->abi_version = 0;
}
int main(void) {
  static unsigned char memory[MODEL_SESSION_BYTES];
  lds_model model;
  lds_device device;
  lds_session_config settings;
  lds_session *session;
  lds_tensor t;
  lds_fault fault;
  int status = lds_model_open(&model, model_bytes, (size_t)(model_bytes_end - model_bytes));
  sims[0] = lds_hal_sim_create(config(lds_model_fingerprint(&model, 0)), 64, LDS_SIMDEV_NATIVE, MODEL_DMA_BYTES, 0);
  if (status == LDS_OK) status = lds_device_open(&device, lds_hal_sim_hal(sims[0]), &MODEL_REGISTERS, MODEL_CONFIG_HASH);
  lds_session_config_default(&settings);
  if (status == LDS_OK) status = model_accelerators(device.hal, &settings);
  if (status == LDS_OK) status = lds_session_open(&session, &model, &device, &settings, memory, sizeof memory, &fault);
  if (status == LDS_OK) {
    (void)lds_model_input(&model, 0, &t);
    if (fread(lds_session_input(session, 0), 1, t.size_bytes, stdin) != t.size_bytes) status = LDS_ERR_ARGUMENT;
    if (status == LDS_OK) status = lds_session_run(session);
    (void)lds_model_output(&model, 0, &t);
    if (status == LDS_OK) (void)fwrite(lds_session_output(session, 0), 1, t.size_bytes, stdout);
    lds_session_close(session);
  }
  lds_hal_sim_destroy(sims[1]);
  lds_hal_sim_destroy(sims[0]);
  return -status;
}
