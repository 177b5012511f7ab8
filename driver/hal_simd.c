/* The functions of lds_hal_simd.h: registers over a socket of packets, DMA memory from the file whose descriptor the server sends.
 *
 * In:   a server that python/loadstone/simulator/simd.py describes.
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* ppoll */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lds_hal_simd.h"
#include "lds_packets.h"
#include "lds_pool.h"
#include "pool_shortage.h"

enum { BLOCKS = 4096, PROTOCOL_VERSION = 2, ANSWER_TIMEOUT_S = 10 };
enum { KIND_HELLO = 0, KIND_READ = 1, KIND_WRITE = 2, KIND_IRQ = 3, KIND_POST = 4 };

typedef struct welcome {
  lds_packet head;
  uint32_t page_bytes, shares;
  uint64_t memory_bus, memory_bytes;
} welcome;

struct lds_hal_simd {
  lds_hal hal;
  int channel;                      /* -1: the server is gone */
  uint32_t sequence, level, shares; /* shares: other devices have the memory, too, and nothing orders requests of two sockets */
  lds_pool pool;
  lds_pool_block blocks[BLOCKS];
  char message[256];
};

/* --- packets ----------------------------------------------------------------------------------------------------------------- */
static void hang_up(lds_hal_simd *simd) {
  if (simd->channel >= 0) close(simd->channel);
  simd->channel = -1;
  simd->level = 0;
}

/* Receives the next packet and adopts its interrupt level. 0: the server has closed the connection, or sent a packet of another size. */
static int receive(lds_hal_simd *simd, lds_packet *p) {
  int descriptor;
  const long got = lds_packets_receive(simd->channel, p, sizeof *p, &descriptor, 0);
  if (descriptor >= 0) close(descriptor);
  if (got != (long)sizeof *p) {
    hang_up(simd);
    return 0;
  }
  simd->level = p->second & 1u;
  return 1;
}

static uint32_t call(lds_hal_simd *simd, uint32_t kind, uint32_t offset, uint32_t value) {
  lds_packet p;
  if (simd->channel < 0) return UINT32_MAX;
  p.kind = kind;
  p.sequence = ++simd->sequence;
  p.first = offset;
  p.second = value;
  if (!lds_packets_send(simd->channel, &p, sizeof p, -1, 0)) {
    hang_up(simd);
    return UINT32_MAX;
  }
  do {
    if (!receive(simd, &p)) return UINT32_MAX;
  } while (p.kind == KIND_IRQ);
  if (p.kind == kind && p.sequence == simd->sequence) return p.first;
  hang_up(simd);
  return UINT32_MAX;
}

/* --- callbacks --------------------------------------------------------------------------------------------------------------- */
static uint32_t read32(void *ctx, uint32_t offset) { return call(ctx, KIND_READ, offset, 0); }

/* Only a write that may lower the line is waited for. */
static void write32(void *ctx, uint32_t offset, uint32_t value) {
  lds_hal_simd *simd = ctx;
  const lds_packet p = {KIND_POST, 0, offset, value};
  if (simd->level != 0 || simd->shares != 0) {
    (void)call(simd, KIND_WRITE, offset, value);
  } else if (simd->channel >= 0 && !lds_packets_send(simd->channel, &p, sizeof p, -1, 0)) {
    hang_up(simd);
  }
}

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  lds_hal_simd *simd = ctx;
  const int status = lds_pool_alloc(&simd->pool, size_bytes, align_bytes, flags, out);
  if (status != LDS_HAL_OK) lds_pool_shortage(&simd->pool, size_bytes, align_bytes, simd->message, sizeof simd->message);
  return status;
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_hal_simd *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  lds_hal_simd *simd = ctx;
  const uint64_t begin = now_ns(ctx);
  lds_packet p;
  while (simd->level == 0) {
    const uint64_t passed = now_ns(ctx) - begin;
    struct pollfd readable;
    struct timespec left;
    if (simd->channel < 0 || passed >= timeout_ns) return LDS_HAL_TIMEOUT;
    readable.fd = simd->channel;
    readable.events = POLLIN;
    left.tv_sec = (time_t)((timeout_ns - passed) / 1000000000u % 1000000u);
    left.tv_nsec = (long)((timeout_ns - passed) % 1000000000u);
    if (ppoll(&readable, 1, &left, NULL) > 0) (void)receive(simd, &p);
  }
  return LDS_HAL_OK;
}

/* --- opening ----------------------------------------------------------------------------------------------------------------- */
/* The answer to HELLO. LDS_HAL_OK: *memory is the descriptor of the memory file. */
static int greet(int channel, welcome *answer, int *memory) {
  const lds_packet hello = {KIND_HELLO, 0, PROTOCOL_VERSION, 0};
  long got;
  memset(answer, 0, sizeof *answer);
  if (!lds_packets_send(channel, &hello, sizeof hello, -1, 0)) return LDS_HAL_FAILED;
  got = lds_packets_receive(channel, answer, sizeof *answer, memory, 0);
  if (answer->head.kind != KIND_HELLO || got < (long)sizeof answer->head || got > (long)sizeof *answer) return LDS_HAL_FAILED;
  if (got == (long)sizeof answer->head && answer->head.first == 0) return LDS_HAL_TIMEOUT;
  if (answer->head.first != PROTOCOL_VERSION) return LDS_HAL_UNSUPPORTED;
  return got == (long)sizeof *answer && *memory >= 0 ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static int open_memory(lds_hal_simd *simd, const welcome *answer, int memory) {
  void *cpu = lds_packets_map(memory, answer->memory_bytes, answer->memory_bus);
  if (cpu == NULL) return LDS_HAL_NO_MEMORY;
  simd->pool.cpu = cpu;
  simd->pool.bus = answer->memory_bus;
  simd->pool.size_bytes = (size_t)answer->memory_bytes;
  simd->pool.blocks = simd->blocks;
  simd->pool.capacity = BLOCKS;
  simd->level = answer->head.second & 1u;
  simd->shares = answer->shares;
  return LDS_HAL_OK;
}

int lds_hal_simd_open(const char *socket_path, lds_hal_simd **out) {
  lds_hal_simd *simd = calloc(1, sizeof *simd);
  welcome answer;
  int memory = -1, status = LDS_HAL_FAILED;
  if (simd == NULL) return LDS_HAL_NO_MEMORY;
  simd->hal.abi_version = LDS_HAL_ABI_VERSION;
  simd->hal.ctx = simd;
  simd->hal.read32 = read32;
  simd->hal.write32 = write32;
  simd->hal.dma_alloc = dma_alloc;
  simd->hal.dma_free = dma_free;
  simd->hal.irq_wait = irq_wait;
  simd->hal.now_ns = now_ns;
  simd->channel = lds_packets_connect(socket_path, ANSWER_TIMEOUT_S);
  if (simd->channel >= 0) status = greet(simd->channel, &answer, &memory);
  if (status == LDS_HAL_OK) status = open_memory(simd, &answer, memory);
  if (memory >= 0) close(memory);
  if (status == LDS_HAL_OK) {
    *out = simd;
  } else {
    lds_hal_simd_close(simd);
  }
  return status;
}

void lds_hal_simd_close(lds_hal_simd *simd) {
  if (simd == NULL) return;
  hang_up(simd);
  if (simd->pool.cpu != NULL) munmap(simd->pool.cpu, simd->pool.size_bytes);
  free(simd);
}

const lds_hal *lds_hal_simd_hal(lds_hal_simd *simd) { return &simd->hal; }

const char *lds_hal_simd_message(const lds_hal_simd *simd) { return simd->message; }
