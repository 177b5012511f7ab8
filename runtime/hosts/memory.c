/* lds_easy.h: memory of the device for an application's arrays.
 *
 * In:   a device whose driver is open.
 * Out:  pieces of DMA memory, and whether an address lies in one.
 * Next: easy.c runs networks on arrays in them without a copy; tvm/memory.cc gives them to TVM.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread */
#include <stdlib.h>

#include "device.h"

enum { LINE_BYTES = 64 };

/* Takes a piece from the driver, with the lock held. */
static int take(lds_easy_device *d, size_t size_bytes, lds_device_memory *piece, lds_easy_error *error) {
  const lds_hal *hal = d->own.device.hal;
  if (d->name.kind == LDS_KIND_SERVED) {
    return lds_easy_fail(error, LDS_ERR_STATE, "device '%s' has no memory for applications: another process has it", d->text);
  }
  if (hal == NULL) {
    return lds_easy_fail(error, LDS_ERR_STATE, "device '%s' has no memory before its first network is open", d->text);
  }
  if (hal->dma_alloc(hal->ctx, size_bytes, LINE_BYTES, LDS_DMA_DEVICE_READS | LDS_DMA_DEVICE_WRITES, &piece->buffer) != LDS_HAL_OK) {
    return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s' does not have %lu bytes of memory left", d->text, (unsigned long)size_bytes);
  }
  piece->next = d->memory;
  d->memory = piece;
  ++d->users;
  return LDS_OK;
}

int lds_easy_memory_alloc(lds_easy_device *d, size_t size_bytes, void **out, lds_easy_error *error) {
  lds_device_memory *piece;
  int status;
  if (d == NULL || out == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the device or the pointer for the memory's address is NULL");
  *out = NULL;
  if (size_bytes > SIZE_MAX - LINE_BYTES)
    return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s' does not have that much memory", d->text);
  /* whole cache lines, so that nothing of the CPU's shares one with what the device writes */
  size_bytes = size_bytes == 0 ? LINE_BYTES : (size_bytes + LINE_BYTES - 1u) / LINE_BYTES * LINE_BYTES;
  piece = calloc(1, sizeof *piece);
  if (piece == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
  (void)pthread_mutex_lock(&d->lock);
  status = take(d, size_bytes, piece, error);
  (void)pthread_mutex_unlock(&d->lock);
  if (status != LDS_OK) {
    free(piece);
    return status;
  }
  piece->buffer.size_bytes = size_bytes;
  *out = piece->buffer.cpu;
  return lds_easy_fail(error, LDS_OK, "%s", "");
}

void lds_easy_memory_free(lds_easy_device *d, void *data) {
  lds_device_memory *piece, **at;
  if (d == NULL || data == NULL) return;
  (void)pthread_mutex_lock(&d->lock);
  at = &d->memory;
  while (*at != NULL && (*at)->buffer.cpu != data) at = &(*at)->next;
  piece = *at;
  if (piece != NULL) {
    *at = piece->next;
    d->own.device.hal->dma_free(d->own.device.hal->ctx, &piece->buffer);
  }
  (void)pthread_mutex_unlock(&d->lock);
  if (piece == NULL) return;
  free(piece);
  lds_easy_device_close(d);
}

int lds_device_has(const lds_easy_device *d, const void *data, size_t size_bytes, uint64_t *bus) {
  const lds_device_memory *piece;
  for (piece = d->memory; piece != NULL; piece = piece->next) {
    const uintptr_t begin = (uintptr_t)piece->buffer.cpu, at = (uintptr_t)data;
    if (at < begin || at - begin > piece->buffer.size_bytes || size_bytes > piece->buffer.size_bytes - (at - begin)) continue;
    if (bus != NULL) *bus = piece->buffer.bus + (at - begin);
    return 1;
  }
  return 0;
}

int lds_easy_memory_has(lds_easy_device *d, const void *data, size_t size_bytes, uint64_t *bus) {
  int found;
  if (d == NULL) return 0;
  (void)pthread_mutex_lock(&d->lock);
  found = lds_device_has(d, data, size_bytes, bus);
  (void)pthread_mutex_unlock(&d->lock);
  return found;
}

void lds_easy_device_keep(lds_easy_device *d) {
  if (d == NULL) return;
  (void)pthread_mutex_lock(&d->lock);
  ++d->users;
  (void)pthread_mutex_unlock(&d->lock);
}
