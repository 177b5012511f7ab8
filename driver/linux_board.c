/* What linux_board.h says.
 *
 * In:   mappings of registers and of reserved memory.
 * Out:  lds_hal callbacks.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, beside POSIX */
#define _FILE_OFFSET_BITS 64
#include "linux_board.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "map_shared.h"
#include "mmio.h"

static uint32_t read32(void *ctx, uint32_t offset) { return lds_mmio_read(((lds_linux *)ctx)->registers, offset); }

static void write32(void *ctx, uint32_t offset, uint32_t value) { lds_mmio_write(((lds_linux *)ctx)->registers, offset, value); }

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((lds_linux *)ctx)->pool, size_bytes, align_bytes, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_linux *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void lds_linux_begin(lds_linux *board) {
  memset(board, 0, sizeof *board);
  board->fd = board->memory_fd = -1;
  board->pool.blocks = board->blocks;
  board->pool.capacity = LDS_LINUX_BLOCKS;
  board->hal.abi_version = LDS_HAL_ABI_VERSION;
  board->hal.ctx = board;
  board->hal.read32 = read32;
  board->hal.write32 = write32;
  board->hal.dma_alloc = dma_alloc;
  board->hal.dma_free = dma_free;
  board->hal.now_ns = now_ns;
}

void *lds_linux_map(lds_linux *board, int fd, uint64_t offset, size_t size_bytes, uint64_t bus, const char *what) {
  void *p = lds_map_shared(fd, (off_t)offset, size_bytes, bus);
  if (p != MAP_FAILED) return p;
  (void)snprintf(board->message, sizeof board->message, "%s: cannot map %lu bytes: %s", what, (unsigned long)size_bytes, strerror(errno));
  return NULL;
}

int lds_linux_fail(lds_linux *board, const char *what, const char *path) {
  char message[sizeof board->message];
  if (board->message[0] == '\0') {
    (void)snprintf(board->message, sizeof board->message, "%s: %s%s%s", path, what, errno != 0 ? ": " : "",
                   errno != 0 ? strerror(errno) : "");
  }
  memcpy(message, board->message, sizeof message);
  lds_linux_close(board);
  memcpy(board->message, message, sizeof message);
  return LDS_HAL_FAILED;
}

void lds_linux_close(lds_linux *board) {
  if (board->registers != NULL) (void)munmap(board->registers, board->registers_bytes);
  if (board->pool.cpu != NULL) (void)munmap(board->pool.cpu, board->pool.size_bytes);
  if (board->memory_fd >= 0 && board->memory_fd != board->fd) (void)close(board->memory_fd);
  if (board->fd >= 0) (void)close(board->fd);
  lds_linux_begin(board);
}
