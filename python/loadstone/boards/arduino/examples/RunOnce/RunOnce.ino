/* Runs the model once, on inputs of zeros, and prints the first output and the device's cycles.
 *
 * In:   the library that this sketch is in: the model, its runtime, the driver.
 * Out:  lines on Serial.
 * Next: your board's addresses in open_board, your samples at lds_session_input; docs/drivers.md explains the port.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <lds_hal_baremetal.h>
#include <model.h>
#include <stdio.h>
#include <string.h>

static uint8_t dma_memory[MODEL_DMA_BYTES] __attribute__((aligned(MODEL_DMA_ALIGN)));
static uint64_t session_memory[(MODEL_SESSION_BYTES + 7) / 8];
static lds_pool_block blocks[12];
static lds_baremetal board;
static lds_hal hal;
static lds_model model;
static lds_device device;

/* micros() wraps every 71 minutes. */
static uint64_t now_ns() {
  static uint64_t elapsed_us;
  static uint32_t last_us;
  const uint32_t now_us = micros();
  elapsed_us += (uint32_t)(now_us - last_us);
  last_us = now_us;
  return elapsed_us * 1000u;
}

static void open_board() {
  board.registers = (volatile void *)MODEL_REGISTER_BASE;
  board.pool.cpu = dma_memory;
  board.pool.bus = (uintptr_t)dma_memory + MODEL_BUS_OFFSET;
  board.pool.size_bytes = sizeof dma_memory;
  board.pool.blocks = blocks;
  board.pool.capacity = sizeof blocks / sizeof blocks[0];
  board.now_ns = now_ns;
  lds_baremetal_hal(&board, &hal);
}

#if defined(MODEL_ACCELERATORS) && MODEL_ACCELERATORS > MODEL_FIRST_IS_ACCELERATOR
/* The model's other devices: the same memory and clock, registers of their own, no interrupt. */
#ifndef BOARD_ACCELERATORS
#define BOARD_ACCELERATORS (MODEL_REGISTER_BASE + 0x10000u)
#endif

void board_accelerator(const lds_hal *first, uint32_t index, lds_hal *out) {
  static lds_baremetal others[MODEL_ACCELERATORS];
  *out = *first;
  if (MODEL_FIRST_IS_ACCELERATOR && index == 0) return;
  others[index] = board;
  others[index].registers = (volatile void *)(BOARD_ACCELERATORS + 0x10000u * (index - MODEL_FIRST_IS_ACCELERATOR));
  out->ctx = &others[index];
  out->irq_wait = NULL;
  out->irq_ack = NULL;
}
#endif

/* All that is known of what went wrong. */
static void print_fault(int status, const lds_fault *fault) {
  char line[240];
  int end = snprintf(line, sizeof line, "loadstone: status %d: %.80s", status, lds_status_text(status));
  if (fault->status == status)
    snprintf(line + end, sizeof line - end, "; step %lu, instruction %lu, layer %.60s, error %lu, bus address %lu", (unsigned long)fault->step,
             (unsigned long)fault->instruction, fault->layer != NULL ? fault->layer : "", (unsigned long)fault->error,
             (unsigned long)fault->error_addr);
  Serial.println(line);
}

static int run_once(lds_fault *fault) {
  lds_session_config config;
  lds_session *session;
  lds_counters counters;
  lds_tensor tensor;
  int status;
  open_board();
  status = lds_model_open(&model, model_bytes, (size_t)(model_bytes_end - model_bytes));
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
  for (uint32_t k = 0; k < MODEL_INPUTS && lds_model_input(&model, k, &tensor) == LDS_OK; ++k) {
    memset(lds_session_input(session, k), 0, tensor.size_bytes); /* your samples go here */
  }
  status = lds_session_run(session);
  if (status != LDS_OK) lds_session_fault(session, fault);
  if (status == LDS_OK && lds_model_output(&model, 0, &tensor) == LDS_OK) {
    const uint8_t *output = (const uint8_t *)lds_session_output(session, 0);
    for (uint32_t k = 0; k < tensor.size_bytes; ++k) Serial.println(output[k]);
    lds_session_counters(session, &counters);
    Serial.println((unsigned long)counters.cycles);
  }
  lds_session_close(session);
  return status;
}

void setup() {
  Serial.begin(115200);
  static lds_fault fault;
  const int status = run_once(&fault);
  if (status != LDS_OK) print_fault(status, &fault);
}

void loop() {}
