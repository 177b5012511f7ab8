/* The HAL over /dev/mem: for first experiments on a board without a device-tree node. It needs root, and has no interrupt.
 *
 * In:   physical addresses of the register page and of memory that Linux does not use (mem=, memmap=, or reserved).
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>

#include "linux_board.h"

int lds_linux_open_devmem(lds_linux *board, const char *path, uint64_t registers, size_t registers_bytes, uint64_t memory,
                          size_t memory_bytes, uint64_t bus_offset) {
  lds_linux_begin(board);
  errno = 0;
  board->fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
  if (board->fd < 0) return lds_linux_fail(board, "cannot open", path);
  if (!lds_linux_lock(board, board->fd, path)) return lds_linux_fail(board, "cannot be locked", path);
  if (!lds_linux_is_reserved(board, "/proc/iomem", board->fd, 1, registers, registers_bytes) ||
      !lds_linux_is_reserved(board, "/proc/iomem", board->fd, 0, memory, memory_bytes))
    return lds_linux_fail(board, "", path);
  board->registers_bytes = registers_bytes;
  board->registers = lds_linux_map(board, board->fd, registers, registers_bytes, 0, "registers");
  board->pool.bus = memory + bus_offset;
  board->pool.size_bytes = memory_bytes;
  if (board->registers != NULL) board->pool.cpu = lds_linux_map(board, board->fd, memory, memory_bytes, board->pool.bus, "DMA memory");
  return board->registers != NULL && board->pool.cpu != NULL ? LDS_HAL_OK : lds_linux_fail(board, "cannot map", path);
}
