/* An open device, as the calls of lds_easy.h share it. Private to runtime/hosts/.
 *
 * In:   its name.
 * Out:  its driver, and the lock under which it is used.
 * Next: device.c opens the driver, beside.c those of further devices; easy.c runs networks on it, memory.c gives away its memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_EASY_DEVICE_H
#define LDS_EASY_DEVICE_H

#include <pthread.h>

#include "device_name.h"
#include "lds_hal_linux.h"
#include "lds_hal_sim.h"
#include "lds_hal_simd.h"

/* A block of the device's memory that an application has allocated. */
typedef struct lds_device_memory {
  lds_dma_buffer buffer;
  struct lds_device_memory *next;
} lds_device_memory;

/* What drives a device: one of the four, whatever its name says. */
typedef struct lds_driver {
  lds_device device; /* hal NULL: not opened yet */
  lds_hal_sim *sim;
  lds_hal_null *null;
  lds_hal_simd *simd;
  lds_linux *board;
} lds_driver;

struct lds_easy_device {
  lds_device_name name;
  char text[LDS_NAME_BYTES]; /* as it was given */
  pthread_mutex_t lock;      /* held in every call for the device or one of its networks */
  uint32_t users;            /* its networks, and its opener */
  lds_driver own;
  struct lds_beside *beside;  /* further devices: beside.h */
  lds_easy_external external; /* of networks that are opened from now on; NULL: no external steps */
  void *external_ctx;
  lds_device_memory *memory;
};

/* Opens the driver on demand, with the lock held: the simulator is what its first network was compiled for. */
int lds_device_driver(lds_easy_device *d, const lds_model *model, lds_easy_error *error);

/* Opens device `number` of a model: 0 is the device's own, into d->own; others stand beside it, which is open. place: the socket or the UIO
 * device. On an error nothing is left open. */
int lds_driver_open(lds_easy_device *d, const lds_model *model, uint32_t number, const char *place, lds_driver *out, lds_easy_error *error);
void lds_driver_close(lds_driver *driver);

/* lds_easy_memory_has, with the lock held. */
int lds_device_has(const lds_easy_device *d, const void *data, size_t size_bytes, uint64_t *bus);

#endif /* LDS_EASY_DEVICE_H */
