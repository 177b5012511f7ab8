/* HALs for a board under Linux, in user space: UIO (with interrupts where the device has one), and /dev/mem (polling).
 *
 * In:   paths, or physical addresses.
 * Out:  an lds_hal inside a struct of the caller's.
 * Next: runtime/session.c; driver/devicetree/ has the nodes that make the UIO device.
 *
 * DMA memory is reserved in the device tree that boots, so that Linux does not use it, and mapped uncached; or it is u-dma-buf's. Memory
 * that Linux uses is refused, and so are dma-heaps, VFIO, and a device whose IOMMU translates. An open device is locked (flock) until it
 * is closed: a second process gets an error that names the first.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HAL_LINUX_H
#define LDS_HAL_LINUX_H

#include "lds_hal.h"
#include "lds_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LDS_LINUX_BLOCKS = 128 };

typedef struct lds_linux {
  lds_hal hal; /* pass &hal to lds_device_open */
  int fd;      /* the UIO device, or /dev/mem */
  int memory_fd;
  void *registers;
  size_t registers_bytes;
  lds_pool pool;
  lds_pool_block blocks[LDS_LINUX_BLOCKS];
  char udmabuf[256]; /* the sysfs folder of a cached u-dma-buf; "": no synchronisation is needed */
  char message[256]; /* why opening failed, or why there was no memory */
} lds_linux;

/* Registers and interrupt of a UIO device (/dev/uio0), whose first map has at least registers_bytes; DMA memory from its second map,
 * or from u-dma-buf's device (/dev/udmabuf0) where `udmabuf` is not NULL: driver/README.md says when that is needed. Without an
 * interrupt the runtime polls. bus_offset is added to physical addresses. sysfs: "/sys/class", or NULL.
 * LDS_HAL_OK, or LDS_HAL_FAILED with a line in out->message. */
LDS_HAL_EXPORT int lds_linux_open_uio(lds_linux *out, const char *uio, size_t registers_bytes, const char *udmabuf, uint64_t bus_offset,
                                      const char *sysfs);

/* Registers and reserved memory at physical addresses, through `path` ("/dev/mem"). No interrupt: the runtime polls. */
LDS_HAL_EXPORT int lds_linux_open_devmem(lds_linux *out, const char *path, uint64_t registers, size_t registers_bytes, uint64_t memory,
                                         size_t memory_bytes, uint64_t bus_offset);

LDS_HAL_EXPORT void lds_linux_close(lds_linux *board);

#ifdef __cplusplus
}
#endif

#endif /* LDS_HAL_LINUX_H */
