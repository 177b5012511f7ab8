/* Continue a text, the likeliest token each time: text in and out where words.bin is given, else numbers of tokens.
 *
 * In:   a device; model.lds, which is read to where the device finds it, so that a session copies no weights; a prompt on stdin.
 * Out:  what each new token adds to the text, or its number; the cycles of the device on stderr.
 * Next: words.c makes tokens of a text. Memory: the device's, and one piece of the host's.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "words.h"

enum { FILE_ALIGN = 4096, PIECE_ALIGN = 64, TEXT_BYTES = 1 << 16, CHECKSUM_AT = 12 };

const char usage[] =
    "usage: decode DEVICE model.lds COUNT [words.bin]\n"
    "  DEVICE   uio:/dev/uio0, uio:/dev/uio0,/dev/udmabuf0, devmem:ADDRESS+BYTES, or simd:SOCKET\n"
    "  the prompt is read from stdin, and COUNT new tokens are written: as text with words.bin, else as numbers\n";

typedef struct decoder {
  lds_session *session;
  int32_t place;         /* the position of the next token */
  uint32_t rows, words;  /* tokens of a chunk; scores */
  uint64_t cycles, runs; /* so far */
  uint32_t held;         /* tokens of the prompt that have not run yet */
  int32_t chunk[MODEL_CHUNK_ROWS];
} decoder;

/* --- files and memory --------------------------------------------------------------------------------------------------------- */
/* A file at its begin, and its size. */
static FILE *open_file(const char *path, size_t *size_bytes) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size <= 0 || fseek(file, 0, SEEK_SET) != 0) {
    perror(path);
    exit(1);
  }
  *size_bytes = (size_t)size;
  return file;
}

static void read_file(FILE *file, const char *path, void *to, size_t size_bytes) {
  if (fread(to, 1, size_bytes, file) != size_bytes) {
    perror(path);
    exit(1);
  }
  (void)fclose(file);
}

/* The whole file in memory of the device's. */
static void read_model(const lds_hal *hal, const char *path, lds_dma_buffer *out) {
  size_t size;
  FILE *file = open_file(path, &size);
  memset(out, 0, sizeof *out);
  if (hal->dma_alloc(hal->ctx, size, FILE_ALIGN, LDS_DMA_DEVICE_READS, out) != LDS_HAL_OK) check(LDS_ERR_MEMORY, path);
  out->size_bytes = size;
  out->flags = LDS_DMA_DEVICE_READS;
  read_file(file, path, out->cpu, size);
  if (hal->dma_sync != NULL && hal->dma_sync(hal->ctx, out, 0, out->size_bytes, LDS_DMA_TO_DEVICE) != LDS_HAL_OK) check(LDS_ERR_HAL, path);
}

/* The next piece of the host's memory; where there is none yet, only its place. */
static void *piece(uint8_t *memory, size_t *used, size_t size_bytes) {
  uint8_t *begin = memory + *used;
  *used += (size_bytes + PIECE_ALIGN - 1u) / PIECE_ALIGN * PIECE_ALIGN;
  return begin;
}

/* --- the model ---------------------------------------------------------------------------------------------------------------- */
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

/* One more token of the prompt: a chunk runs when another token follows. */
static void take(decoder *d, long token) {
  if (token < 0 || (unsigned long)token >= d->words) check(LDS_ERR_ARGUMENT, "a token that the model does not have");
  if (d->held == d->rows) {
    run(d, MODEL_ENTRY_CHUNK, MODEL_INPUT_OF_CHUNK, d->chunk, d->held, d->rows);
    d->held = 0;
  }
  d->chunk[d->held++] = (int32_t)token;
}

/* --- the prompt --------------------------------------------------------------------------------------------------------------- */
static void take_numbers(decoder *d) {
  long token;
  int found;
  while ((found = scanf("%ld", &token)) == 1) take(d, token);
  if (found != EOF || d->held == 0) check(LDS_ERR_ARGUMENT, "stdin holds no prompt of numbers");
}

/* text: memory for TEXT_BYTES and one more. */
static void take_text(decoder *d, const words *w, uint8_t *text, int32_t *tokens, uint32_t *scratch) {
  const size_t size = fread(text, 1, TEXT_BYTES + 1u, stdin);
  size_t count, k;
  if (size > TEXT_BYTES) check(LDS_ERR_ARGUMENT, "stdin holds more than 65536 bytes");
  count = words_tokens(w, text, size, tokens, scratch);
  if (count == WORDS_BAD_TEXT) check(LDS_ERR_ARGUMENT, "stdin holds no text in UTF-8");
  if (count == 0) check(LDS_ERR_ARGUMENT, "stdin holds no text");
  for (k = 0; k < count; ++k) take(d, tokens[k]);
}

/* What a token adds. */
static void show(const words *w, int32_t token) {
  size_t size;
  const uint8_t *bytes = words_bytes(w, token, &size);
  (void)fwrite(bytes, 1, size, stdout);
}

int main(int argc, char **argv) {
  static lds_dma_buffer file;
  static lds_model model;
  static lds_device device;
  lds_session_config config;
  lds_tensor tensor;
  lds_fault fault = {0, 0, 0, 0, 0, NULL, 0};
  static decoder d;
  static words w;
  uint8_t *memory, *table = NULL, *text = NULL;
  int32_t *tokens = NULL;
  uint32_t *scratch = NULL;
  FILE *words_file = NULL;
  const lds_hal *hal;
  size_t size, table_bytes = 0, used = 0;
  long left;
  int32_t token;
  if (argc < 4 || argc > 5 || (left = strtol(argv[3], NULL, 10)) < 1) {
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
  if (argc == 5) words_file = open_file(argv[4], &table_bytes);
  memory = malloc(size + table_bytes + TEXT_BYTES + 1u + (TEXT_BYTES + 1u) * sizeof *tokens + WORDS_SCRATCH_BYTES(TEXT_BYTES) +
                  5u * PIECE_ALIGN);
  if (memory == NULL) check(LDS_ERR_MEMORY, argv[2]);
  check(lds_session_open(&d.session, &model, &device, &config, piece(memory, &used, size), size, &fault), argv[2]);
  check(lds_model_input(&model, MODEL_INPUT_OF_CHUNK, &tensor), argv[2]);
  d.rows = tensor.dims[0];
  if (d.rows != MODEL_CHUNK_ROWS) check(LDS_ERR_CONFIG, argv[2]);
  check(lds_model_output(&model, MODEL_OUTPUT_OF_NEXT, &tensor), argv[2]);
  d.words = tensor.size_bytes / (uint32_t)sizeof(float);
  if (words_file != NULL) {
    table = piece(memory, &used, table_bytes);
    text = piece(memory, &used, TEXT_BYTES + 1u);
    tokens = piece(memory, &used, (TEXT_BYTES + 1u) * sizeof *tokens);
    scratch = piece(memory, &used, WORDS_SCRATCH_BYTES(TEXT_BYTES));
    read_file(words_file, argv[4], table, table_bytes);
    if (!words_open(&w, table, table_bytes)) check(LDS_ERR_FORMAT, argv[4]);
    if (w.model != words_u32(model.bytes + CHECKSUM_AT) || w.count > d.words) check(LDS_ERR_CONFIG, argv[4]);
    take_text(&d, &w, text, tokens, scratch);
  } else {
    take_numbers(&d);
  }
  run(&d, MODEL_ENTRY_CHUNK, MODEL_INPUT_OF_CHUNK, d.chunk, d.held, d.rows);
  for (token = likeliest(&d, MODEL_OUTPUT_OF_CHUNK);; token = likeliest(&d, MODEL_OUTPUT_OF_NEXT)) {
    if (words_file == NULL) {
      printf("%ld\n", (long)token);
    } else if (words_is_end(&w, token)) {
      break;
    } else {
      show(&w, token);
    }
    (void)fflush(stdout);
    if (--left == 0) break;
    run(&d, MODEL_ENTRY_NEXT, MODEL_INPUT_OF_NEXT, &token, 1, 1);
  }
  lds_session_close(d.session);
  hal->dma_free(hal->ctx, &file);
  fprintf(stderr, "%llu runs, %llu cycles\n", (unsigned long long)d.runs, (unsigned long long)d.cycles);
  return 0;
}
