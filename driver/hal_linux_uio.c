/* The HAL over Linux UIO: map 0 is the register page, map 1 reserved memory, and the file descriptor is the interrupt.
 *
 * In:   /dev/uioN and its sysfs folder.
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 *
 * uio_pdrv_genirq masks the interrupt when it comes; writing 1 lets the next one through, reading waits and counts.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "linux_board.h"

/* A number in a sysfs file, decimal or 0x...; 0 when there is none. */
static uint64_t number_in(const char *sysfs, const char *folder, const char *device, const char *file) {
  char path[256];
  unsigned long long value = 0;
  FILE *f;
  (void)snprintf(path, sizeof path, "%s/%s/%s/%s", sysfs, folder, device, file);
  f = fopen(path, "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%lli", (long long *)&value) != 1) value = 0;
  (void)fclose(f);
  return value;
}

static const char *name_in(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static int irq_ack(void *ctx) {
  const uint32_t on = 1;
  return write(((lds_linux *)ctx)->fd, &on, sizeof on) == (ssize_t)sizeof on ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  struct pollfd waiting;
  uint32_t count;
  const uint64_t ms = timeout_ns / 1000000u + 1u;
  int found;
  waiting.fd = ((lds_linux *)ctx)->fd;
  waiting.events = POLLIN;
  found = poll(&waiting, 1, ms < 3600000u ? (int)ms : 3600000);
  if (found == 0 || (found < 0 && errno == EINTR)) return LDS_HAL_TIMEOUT;
  return found == 1 && read(waiting.fd, &count, sizeof count) == (ssize_t)sizeof count ? LDS_HAL_OK : LDS_HAL_FAILED;
}

/* What lies behind map 0 in its last page is not the device's. */
static int map_registers(lds_linux *board, const char *uio, size_t needed_bytes, const char *sysfs) {
  board->registers_bytes = (size_t)number_in(sysfs, "uio", name_in(uio), "maps/map0/size");
  if (board->registers_bytes == 0) return 0;
  if (board->registers_bytes < needed_bytes) {
    (void)snprintf(board->message, sizeof board->message, "%s: map 0 has %#lx bytes, the register block %#lx: widen reg in the device tree",
                   uio, (unsigned long)board->registers_bytes, (unsigned long)needed_bytes);
    return 0;
  }
  board->registers = lds_linux_map(board, board->fd, 0, board->registers_bytes, 0, uio);
  return board->registers != NULL;
}

static int map_memory(lds_linux *board, const char *uio, const char *udmabuf, uint64_t bus_offset, const char *sysfs) {
  lds_pool *pool = &board->pool;
  if (udmabuf != NULL) {
    pool->size_bytes = (size_t)number_in(sysfs, "u-dma-buf", name_in(udmabuf), "size");
    pool->bus = number_in(sysfs, "u-dma-buf", name_in(udmabuf), "phys_addr") + bus_offset;
    board->memory_fd = open(udmabuf, O_RDWR | O_SYNC); /* O_SYNC: uncached */
  } else {
    pool->size_bytes = (size_t)number_in(sysfs, "uio", name_in(uio), "maps/map1/size");
    pool->bus = number_in(sysfs, "uio", name_in(uio), "maps/map1/addr") + bus_offset;
    board->memory_fd = board->fd;
  }
  if (pool->size_bytes == 0 || board->memory_fd < 0) return 0;
  /* UIO: map n begins at n pages. */
  pool->cpu =
      lds_linux_map(board, board->memory_fd, udmabuf != NULL ? 0 : (uint64_t)sysconf(_SC_PAGESIZE), pool->size_bytes, pool->bus, uio);
  return pool->cpu != NULL;
}

int lds_linux_open_uio(lds_linux *board, const char *uio, size_t registers_bytes, const char *udmabuf, uint64_t bus_offset,
                       const char *sysfs) {
  if (sysfs == NULL) sysfs = "/sys/class";
  lds_linux_begin(board);
  errno = 0;
  board->fd = open(uio, O_RDWR | O_SYNC);
  if (board->fd < 0) return lds_linux_fail(board, "cannot open", uio);
  errno = 0;
  if (!map_registers(board, uio, registers_bytes, sysfs)) return lds_linux_fail(board, "sysfs shows no maps/map0 (registers)", uio);
  if (!map_memory(board, uio, udmabuf, bus_offset, sysfs)) {
    return udmabuf != NULL ? lds_linux_fail(board, "sysfs shows no size and phys_addr of u-dma-buf", udmabuf)
                           : lds_linux_fail(board, "sysfs shows no maps/map1 (DMA memory)", uio);
  }
  board->hal.irq_wait = irq_wait;
  board->hal.irq_ack = irq_ack;
  return irq_ack(board) == LDS_HAL_OK ? LDS_HAL_OK : lds_linux_fail(board, "cannot enable the interrupt", uio);
}
