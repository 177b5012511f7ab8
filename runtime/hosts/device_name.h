/* The parsed name of a device. Private to runtime/hosts/.
 *
 * In:   "uio:/dev/uio0;registers=vta-hls".
 * Out:  kind, paths or addresses, options.
 * Next: easy.c opens the driver of that kind.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_DEVICE_NAME_H
#define LDS_DEVICE_NAME_H

#include "lds_easy.h"

enum { LDS_NAME_BYTES = 256 };

typedef enum lds_device_kind { LDS_KIND_SIM, LDS_KIND_NULL, LDS_KIND_SIMD, LDS_KIND_SERVED, LDS_KIND_UIO, LDS_KIND_DEVMEM } lds_device_kind;

typedef struct lds_device_name {
  lds_device_kind kind;
  char path[LDS_NAME_BYTES], second[LDS_NAME_BYTES]; /* simd, served: socket; uio: device, u-dma-buf or "" */
  uint64_t registers_address, memory_address;        /* devmem */
  size_t memory_bytes;
  const lds_register_block *registers; /* NULL: not specified */
  int page;                            /* LDS_SIMDEV_*, of the simulator */
  size_t registers_bytes;
  uint64_t bus_offset, hang_ns;
  size_t pool_bytes;
  uint32_t priority; /* served, and the next two */
  uint64_t period_ns, deadline_ns;
  char timing[LDS_NAME_BYTES];  /* file of the simulator's constants, or "" */
  char further[LDS_NAME_BYTES]; /* UIO devices of further devices, with commas between, or "" */
} lds_device_name;

/* LDS_OK, or LDS_ERR_ARGUMENT with a line in *error that states the expected form. */
int lds_device_name_read(const char *name, lds_device_name *out, lds_easy_error *error);

/* Sets registers, page and registers_bytes; 0 for an unknown name. */
int lds_device_page(const char *registers, lds_device_name *out);

/* Writes one line, cut where it is too long; control characters of names become '?'. Returns status. error may be NULL. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int lds_easy_fail(lds_easy_error *error, int status, const char *format, ...);

#endif /* LDS_DEVICE_NAME_H */
