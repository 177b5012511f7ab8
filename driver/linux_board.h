/* The common part of the two Linux HALs. Private to driver/.
 *
 * In:   file descriptors and offsets.
 * Out:  mappings, and the callbacks over them.
 * Next: hal_linux_uio.c, hal_linux_devmem.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_LINUX_BOARD_H
#define LDS_LINUX_BOARD_H

#include "lds_hal_linux.h"

/* An empty board with the callbacks that need nothing but mappings. */
void lds_linux_begin(lds_linux *board);
/* Maps size_bytes of fd from offset on, where an address can be aligned together with `bus`; NULL and a message when that fails. */
void *lds_linux_map(lds_linux *board, int fd, uint64_t offset, size_t size_bytes, uint64_t bus, const char *what);
/* Locks the file of fd for as long as it is open; 0 and a message that names the holder when another process has the lock. */
int lds_linux_lock(lds_linux *board, int fd, const char *path);
/* Whether Linux does not use a range of physical addresses (DMA memory, or registers), according to `iomem` ("/proc/iomem"); 0 and a
 * message when it does, or when that cannot be determined. A regular file in place of a device is not physical memory. */
int lds_linux_is_reserved(lds_linux *board, const char *iomem, int fd, int registers, uint64_t begin, uint64_t size_bytes);
/* Closes all open files and stores the reason: LDS_HAL_FAILED. */
int lds_linux_fail(lds_linux *board, const char *what, const char *path);

#endif /* LDS_LINUX_BOARD_H */
