/* What both Linux HALs share. Private to driver/.
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
/* The lock of what fd is, as long as it is open; 0 and a message that names its holder when another has it. */
int lds_linux_lock(lds_linux *board, int fd, const char *path);
/* Whether Linux leaves physical addresses alone (DMA memory, or registers), as `iomem` ("/proc/iomem") has it; 0 and a message when not, or
 * when that cannot be seen. A file in place of a device is no physical memory. */
int lds_linux_is_reserved(lds_linux *board, const char *iomem, int fd, int registers, uint64_t begin, uint64_t size_bytes);
/* Closes what is open and says why: LDS_HAL_FAILED. */
int lds_linux_fail(lds_linux *board, const char *what, const char *path);

#endif /* LDS_LINUX_BOARD_H */
