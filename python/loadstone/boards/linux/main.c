/* Run the model over a file of samples: one run after the other.
 *
 * In:   a device; a file with the inputs of each run one after the other, in the model's order.
 * Out:  a file with the outputs, likewise; cycles on stderr. A debug build (make DEBUG=1) stops behind the first run and prints a digest
 *       of each layer's output on stderr.
 * Next: put your application here.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "lds_layers.h"

const char usage[] =
    "usage: model DEVICE INPUT OUTPUT [DEVICE ...]\n"
    "  the DEVICEs behind are the other accelerators, in the order of accelerators/accelerators.c; all see the first one's memory\n"
    "  DEVICE   uio:/dev/uio0, uio:/dev/uio0,/dev/udmabuf0, devmem:ADDRESS+BYTES, or simd:SOCKET\n"
    "  INPUT    inputs of every run, one after the other; OUTPUT is written likewise; - is stdin or stdout\n";

/* Of the model's own: all that is known of what went wrong. */
static void check_session(int status, const char *what, const lds_model *model, const lds_fault *fault) {
  if (status != LDS_OK && fault->status == status)
    fprintf(stderr, "model: device %s, step %lu, instruction %lu, layer %s, error %lu, bus address %lu\n",
            lds_model_device(model, fault->device), (unsigned long)fault->step, (unsigned long)fault->instruction,
            fault->layer != NULL ? fault->layer : "", (unsigned long)fault->error, (unsigned long)fault->error_addr);
  check(status, what);
}

#if OTHER_DEVICES > 0
static char **other_devices;

/* What model_accelerators asks for: registers of its own, and the memory of the first. */
void board_accelerator(const lds_hal *first, uint32_t index, lds_hal *hal);

void board_accelerator(const lds_hal *first, uint32_t index, lds_hal *hal) {
  const uint32_t number = index - MODEL_FIRST_IS_ACCELERATOR;
  *hal = *first;
  if (!MODEL_FIRST_IS_ACCELERATOR || index > 0) *hal = *open_device(other_devices[number], 1u + number);
}
#endif

static FILE *open_file(const char *path, const char *mode, FILE *standard) {
  FILE *f = strcmp(path, "-") == 0 ? standard : fopen(path, mode);
  if (f != NULL) return f;
  perror(path);
  exit(1);
}

/* 0 at the end of the file. */
static int read_inputs(const lds_model *model, lds_session *session, FILE *in) {
  lds_tensor tensor;
  uint32_t k;
  for (k = 0; k < MODEL_INPUTS && lds_model_input(model, k, &tensor) == LDS_OK; ++k) {
    const size_t size = fread(lds_session_input(session, k), 1, tensor.size_bytes, in);
    if (size == 0 && k == 0) return 0;
    if (size != tensor.size_bytes) {
      fprintf(stderr, "model: the inputs end in the middle of a run, %lu bytes into %s\n", (unsigned long)size, tensor.name);
      exit(1);
    }
  }
  return 1;
}

static void write_outputs(const lds_model *model, lds_session *session, FILE *out) {
  lds_tensor tensor;
  uint32_t k;
  for (k = 0; k < MODEL_OUTPUTS && lds_model_output(model, k, &tensor) == LDS_OK; ++k) {
    if (fwrite(lds_session_output(session, k), 1, tensor.size_bytes, out) != tensor.size_bytes) {
      perror("output");
      exit(1);
    }
  }
}

#ifdef MODEL_DIGESTS
static void print_digest(void *ctx, uint32_t step, uint32_t behind, uint32_t elements, uint32_t digest) {
  (void)ctx;
  fprintf(stderr, "loadstone digest %lu %lu %lu %08lx\n", (unsigned long)step, (unsigned long)behind, (unsigned long)elements,
          (unsigned long)digest);
}
#endif

int main(int argc, char **argv) {
  lds_model model;
  lds_device device;
  lds_session_config config;
  lds_session *session;
  lds_counters counters;
  lds_fault fault = {0, 0, 0, 0, 0, NULL, 0};
  FILE *in, *out;
  size_t size;
  long runs = 0;
  int status;
  if (argc != 4 + OTHER_DEVICES) {
    fputs(usage, stderr);
    return 2;
  }
  check(lds_model_open(&model, model_bytes, (size_t)(model_bytes_end - model_bytes)), "model");
  check(lds_device_open(&device, open_device(argv[1], 0), &MODEL_REGISTERS, MODEL_CONFIG_HASH), argv[1]);
  lds_session_config_default(&config);
  config.clock_hz = MODEL_CLOCK_HZ; /* your bitstream's: a device hangs after what its program can take at it */
#if OTHER_DEVICES > 0
  other_devices = argv + 4;
#endif
#ifdef MODEL_ACCELERATORS
  check(model_accelerators(device.hal, &config), argv[1]);
#endif
#ifdef MODEL_OPERATORS
  config.operators = &model_operators;
#endif
#ifdef MODEL_EXTERNAL
  config.external = model_external;
#endif
  size = lds_session_size_bytes(&model, &config);
  status = lds_session_open(&session, &model, &device, &config, malloc(size), size, &fault);
  if (status == LDS_ERR_MEMORY && memory_shortage()[0] != 0)
    fprintf(stderr, "model: %s; the model takes %lu\n", memory_shortage(), (unsigned long)MODEL_DMA_BYTES);
  check_session(status, lds_model_name(&model), &model, &fault);
  in = open_file(argv[2], "rb", stdin);
  out = open_file(argv[3], "wb", stdout);
  for (; read_inputs(&model, session, in); ++runs) {
    status = lds_session_run(session);
    if (status != LDS_OK) lds_session_fault(session, &fault);
    check_session(status, "run", &model, &fault);
    write_outputs(&model, session, out);
#ifdef MODEL_DIGESTS /* of the first run; afterwards the session can only be closed */
    check(lds_session_digests(session, &model, print_digest, NULL), "digests");
    ++runs;
    break;
#endif
  }
  lds_session_counters(session, &counters);
  lds_session_close(session);
  fprintf(stderr, "%s: %ld runs, %llu cycles each\n", lds_model_name(&model), runs, (unsigned long long)counters.cycles);
  return fclose(out) == 0 ? 0 : 1;
}
