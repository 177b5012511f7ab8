/* Map the memory of a file or a board so that its CPU and bus addresses can both be aligned. Private to driver/.
 *
 * In:   a file descriptor, an offset, the bus address of the first byte.
 * Out:  a mapping whose address differs from the bus address by a multiple of the largest alignment that the runtime requests.
 * Next: linux_board.c, hal_simd.c. A file that includes it must first request MAP_ANONYMOUS (_DEFAULT_SOURCE or _GNU_SOURCE).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_MAP_SHARED_H
#define LDS_MAP_SHARED_H

#include <sys/mman.h>
#include <unistd.h>

#include "lds_hal.h"

/* MAP_FAILED and errno as mmap. More address space than needed is reserved, the file is mapped over the part of it that is aligned, and
 * the rest is released. If the system refuses that address, any other is accepted: the pool then refuses requests that it cannot align. */
static inline void *lds_map_shared(int fd, off_t offset, size_t size_bytes, uint64_t bus) {
  const size_t spare = LDS_DMA_MAX_ALIGN, page = (size_t)sysconf(_SC_PAGESIZE);
  const int protection = PROT_READ | PROT_WRITE;
  size_t whole_pages, head;
  uint8_t *space;
  void *found;
  if (size_bytes > SIZE_MAX - spare - page) return mmap(NULL, size_bytes, protection, MAP_SHARED, fd, offset);
  whole_pages = (size_bytes + page - 1u) / page * page;
  found = mmap(NULL, whole_pages + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return mmap(NULL, size_bytes, protection, MAP_SHARED, fd, offset);
  space = found;
  head = (size_t)(bus - (uintptr_t)space) & (spare - 1u);
  found = mmap(space + head, size_bytes, protection, MAP_SHARED | MAP_FIXED, fd, offset);
  if (found == MAP_FAILED) {
    (void)munmap(space, whole_pages + spare);
    return mmap(NULL, size_bytes, protection, MAP_SHARED, fd, offset);
  }
  if (head > 0) (void)munmap(space, head);
  if (head < spare) (void)munmap(space + head + whole_pages, spare - head);
  return found;
}

#endif /* LDS_MAP_SHARED_H */
