/* Continue a text: numbers of tokens in, numbers of tokens out, the likeliest one each time.
 *
 * In:   a device; model.lds, which is read to where the device finds it, so that a session copies no weights; a prompt on stdin.
 * Out:  a number for each new token; the cycles of the device on stderr.
 * Next: put your tokenizer around it. Memory: the device's, and one piece of the host's.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { FILE_ALIGN = 4096 };

const char usage[] =
    "usage: decode DEVICE model.lds COUNT\n"
    "  DEVICE   uio:/dev/uio0, uio:/dev/uio0,/dev/udmabuf0, devmem:ADDRESS+BYTES, or simd:SOCKET\n"
    "  the prompt, numbers of tokens, is read from stdin; COUNT new ones are written\n";

typedef struct decoder {
  lds_session *session;
  int32_t place;         /* the position of the next token */
  uint32_t rows, words;  /* tokens of a chunk; scores */
  uint64_t cycles, runs; /* so far */
} decoder;

/* The whole file in memory of the device's. */
static void read_model(const lds_hal *hal, const char *path, lds_dma_buffer *out) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size <= 0 || fseek(file, 0, SEEK_SET) != 0) {
    perror(path);
    exit(1);
  }
  memset(out, 0, sizeof *out);
  if (hal->dma_alloc(hal->ctx, (size_t)size, FILE_ALIGN, LDS_DMA_DEVICE_READS, out) != LDS_HAL_OK) check(LDS_ERR_MEMORY, path);
  out->size_bytes = (size_t)size;
  out->flags = LDS_DMA_DEVICE_READS;
  if (fread(out->cpu, 1, (size_t)size, file) != (size_t)size) {
    perror(path);
    exit(1);
  }
  (void)fclose(file);
  if (hal->dma_sync != NULL && hal->dma_sync(hal->ctx, out, 0, out->size_bytes, LDS_DMA_TO_DEVICE) != LDS_HAL_OK) check(LDS_ERR_HAL, path);
}

/* Runs an entry on `count` tokens, at most its rows. */
static void run(decoder *d, uint32_t entry, uint32_t input, const int32_t *tokens, uint32_t count, uint32_t rows) {
  int32_t *to = lds_session_input(d->session, input), *place = lds_session_input(d->session, input + 1u);
  lds_counters counters;
  int status;
  memset(to, 0, sizeof *to * rows);
  memcpy(to, tokens, sizeof *to * count);
  place[0] = d->place;
  place[1] = (int32_t)count;
  status = lds_session_start_entry(d->session, entry);
  if (status == LDS_OK) status = lds_session_wait(d->session, UINT64_MAX);
  check(status, "run");
  lds_session_counters(d->session, &counters);
  d->cycles += counters.cycles;
  d->runs += 1;
  d->place += (int32_t)count;
}

/* The first of the largest scores; of scores that are no numbers none can be chosen. */
static int32_t likeliest(decoder *d, uint32_t output) {
  const float *scores = lds_session_output(d->session, output);
  uint32_t best = 0, k;
  for (k = 0; k < d->words; ++k) {
    if (!(scores[k] >= -FLT_MAX && scores[k] <= FLT_MAX)) check(LDS_ERR_ARGUMENT, "a score is infinite or no number");
    if (scores[k] > scores[best]) best = k;
  }
  return (int32_t)best;
}

/* Runs what is on stdin, a chunk at a time; returns the token behind it. */
static int32_t take_prompt(decoder *d) {
  static int32_t tokens[MODEL_CHUNK_ROWS];
  uint32_t count = 0, whole = 0;
  long token;
  int found;
  while ((found = scanf("%ld", &token)) == 1) {
    if (token < 0 || (unsigned long)token >= d->words) check(LDS_ERR_ARGUMENT, "a token that the model does not have");
    if (count == d->rows) { /* another one follows: the chunk is no end of the prompt */
      run(d, MODEL_ENTRY_CHUNK, MODEL_INPUT_OF_CHUNK, tokens, count, d->rows);
      count = 0;
    }
    tokens[count++] = (int32_t)token;
    ++whole;
  }
  if (found != EOF || whole == 0) check(LDS_ERR_ARGUMENT, "stdin holds no prompt of numbers");
  run(d, MODEL_ENTRY_CHUNK, MODEL_INPUT_OF_CHUNK, tokens, count, d->rows);
  return likeliest(d, MODEL_OUTPUT_OF_CHUNK);
}

int main(int argc, char **argv) {
  static lds_dma_buffer file;
  static lds_model model;
  static lds_device device;
  lds_session_config config;
  lds_tensor tensor;
  lds_fault fault = {0, 0, 0, 0, 0, NULL};
  decoder d = {NULL, 0, 0, 0, 0, 0};
  const lds_hal *hal;
  size_t size;
  long left;
  int32_t token;
  if (argc != 4 || (left = strtol(argv[3], NULL, 10)) < 1) {
    fputs(usage, stderr);
    return 2;
  }
  hal = open_device(argv[1], 0);
  read_model(hal, argv[2], &file);
  check(lds_model_open(&model, file.cpu, file.size_bytes), argv[2]);
  check(lds_device_open(&device, hal, &MODEL_REGISTERS, MODEL_CONFIG_HASH), argv[1]);
  lds_session_config_default(&config);
  config.clock_hz = MODEL_CLOCK_HZ;
  config.operators = &model_operators;
#ifdef MODEL_EXTERNAL
  config.external = model_external;
#endif
  config.model_bus = file.bus; /* weights and programs stay where they are */
  size = lds_session_size_bytes(&model, &config);
  check(lds_session_open(&d.session, &model, &device, &config, malloc(size), size, &fault), argv[2]);
  check(lds_model_input(&model, MODEL_INPUT_OF_CHUNK, &tensor), argv[2]);
  d.rows = tensor.dims[0];
  if (d.rows != MODEL_CHUNK_ROWS) check(LDS_ERR_CONFIG, argv[2]);
  check(lds_model_output(&model, MODEL_OUTPUT_OF_NEXT, &tensor), argv[2]);
  d.words = tensor.size_bytes / (uint32_t)sizeof(float);
  for (token = take_prompt(&d);; token = likeliest(&d, MODEL_OUTPUT_OF_NEXT)) {
    printf("%ld\n", (long)token);
    (void)fflush(stdout);
    if (--left == 0) break;
    run(&d, MODEL_ENTRY_NEXT, MODEL_INPUT_OF_NEXT, &token, 1, 1);
  }
  lds_session_close(d.session);
  hal->dma_free(hal->ctx, &file);
  fprintf(stderr, "%llu runs, %llu cycles\n", (unsigned long long)d.runs, (unsigned long long)d.cycles);
  return 0;
}
