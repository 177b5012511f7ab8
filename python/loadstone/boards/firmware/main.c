/* Run the model once: input[] through the device into output[].
 *
 * In:   model.lds (linked in by model.S), board.c for the board.
 * Out:  loadstone_status, output[].
 * Next: put your application here.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "board.h"
#include "lds_layers.h"
#include "model.h"

static uint64_t session_memory[(MODEL_SESSION_BYTES + 7) / 8];
volatile int loadstone_status; /* for a debugger: LDS_OK (0), or what went wrong */

#ifdef MODEL_DIGESTS
static void print_digest(void *ctx, uint32_t step, uint32_t behind, uint32_t elements, uint32_t digest) {
  char text[9];
  int k;
  (void)ctx;
  for (k = 0; k < 8; ++k) text[k] = "0123456789abcdef"[digest >> (28 - 4 * k) & 15u];
  text[8] = '\0';
  board_print("loadstone digest ");
  print_number(step);
  board_print(" ");
  print_number(behind);
  board_print(" ");
  print_number(elements);
  board_print(" ");
  board_print(text);
  board_print("\n");
}
#endif

static lds_model model;

/* All that is known of what went wrong. */
static void print_fault(const lds_fault *fault) {
  board_print("loadstone: status -");
  print_number((uint32_t)-loadstone_status);
  board_print(": ");
  board_print(lds_status_text(loadstone_status));
  if (fault->status == loadstone_status) {
#ifdef MODEL_ACCELERATORS
    board_print("; device ");
    board_print(lds_model_device(&model, fault->device));
#endif
    board_print("; step ");
    print_number(fault->step);
    board_print(", instruction ");
    print_number(fault->instruction);
    board_print(", layer ");
    board_print(fault->layer != NULL ? fault->layer : "");
    board_print(", error ");
    print_number(fault->error);
    board_print(", bus address ");
    print_number(fault->error_addr);
  }
  board_print("\n");
}

static int run(lds_fault *fault) {
  static lds_hal hal;
  static lds_device device;
  lds_session_config config;
  lds_session *session;
  lds_counters counters;
  uint32_t k;
  int status;
  board_open(&hal);
  status = lds_model_open(&model, model_bytes, model_bytes_end - model_bytes);
  if (status != LDS_OK) return status;
  status = lds_device_open(&device, &hal, &MODEL_REGISTERS, MODEL_CONFIG_HASH);
  if (status != LDS_OK) return status;
  lds_session_config_default(&config);
  config.clock_hz = MODEL_CLOCK_HZ; /* your bitstream's: a device hangs after what its program can take at it */
#ifdef MODEL_ACCELERATORS
  status = model_accelerators(&hal, &config);
  if (status != LDS_OK) return status;
#endif
#ifdef MODEL_OPERATORS
  config.operators = &model_operators;
#endif
#ifdef MODEL_EXTERNAL
  config.external = model_external;
#endif
  status = lds_session_open(&session, &model, &device, &config, session_memory, sizeof session_memory, fault);
  if (status != LDS_OK) return status;
  for (k = 0; k < MODEL_INPUTS; ++k) {
    lds_tensor tensor;
    (void)lds_model_input(&model, k, &tensor);
    memset(lds_session_input(session, k), 0, tensor.size_bytes); /* your samples go here */
  }
#ifdef MODEL_SAMPLE
  memcpy(lds_session_input(session, 0), sample_bytes, (size_t)(sample_bytes_end - sample_bytes));
#endif
  status = lds_session_run(session);
  if (status != LDS_OK) lds_session_fault(session, fault);
  if (status == LDS_OK) {
    lds_tensor tensor;
    const uint8_t *output = lds_session_output(session, 0);
    (void)lds_model_output(&model, 0, &tensor);
    board_print("output");
    for (k = 0; k < tensor.size_bytes; ++k) {
      board_print(" ");
      print_number(output[k]);
    }
    lds_session_counters(session, &counters);
    board_print("\ncycles ");
    print_number((uint32_t)counters.cycles);
    board_print("\n");
  }
#ifdef MODEL_DIGESTS
  if (status == LDS_OK) status = lds_session_digests(session, &model, print_digest, NULL);
#endif
  lds_session_close(session);
  return status;
}

int main(void) {
  static lds_fault fault;
  loadstone_status = run(&fault);
  if (loadstone_status != LDS_OK) print_fault(&fault);
  board_exit(loadstone_status);
  return 0;
}
