/* The HAL over Linux UIO: map 0 is the register page, map 1 reserved memory, and the file descriptor signals the interrupt, if the device
 * has one.
 *
 * In:   /dev/uioN, perhaps /dev/udmabufN, and their sysfs folders.
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 *
 * uio_pdrv_genirq masks the interrupt when it comes; writing 1 lets the next one through, reading waits and counts. A device whose node
 * has no interrupt refuses the write with EIO: it is polled.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* ppoll */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "linux_board.h"

/* Whether a sysfs file holds one number, decimal or 0x..., of at most `limit`, and nothing else; a message when not. */
static int number_in(lds_linux *board, const char *folder, const char *file, uint64_t limit, uint64_t *out) {
  char path[320], text[32] = "", *end = text;
  FILE *f;
  (void)snprintf(path, sizeof path, "%s/%s", folder, file);
  f = fopen(path, "r");
  if (f != NULL && fgets(text, sizeof text, f) == NULL) text[0] = '\0';
  if (f != NULL) (void)fclose(f);
  text[strcspn(text, "\n")] = '\0';
  errno = 0;
  *out = strtoull(text, &end, 0);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
    (void)snprintf(board->message, sizeof board->message, "%.220s: no such file, or no number in it", path);
    return 0;
  }
  if (*out <= limit) return 1;
  (void)snprintf(board->message, sizeof board->message, "%.170s: %.24s is more than %llu, the most that it can be", path, text,
                 (unsigned long long)limit);
  return 0;
}

/* strrchr is avoided: newer C libraries define it as a macro that is not valid C99. */
static const char *name_in(const char *path) {
  const char *name = path;
  for (; *path != '\0'; ++path) {
    if (*path == '/') name = path + 1;
  }
  return name;
}

/* --- what cannot be right ---------------------------------------------------------------------------------------------------- */
/* For kernel interfaces that this HAL does not support, the reason and the alternative; NULL for any other path. */
static const char *unsupported(const char *path) {
  if (strncmp(path, "/dev/dma_heap/", 14) == 0)
    return "memory of a dma-heap has no address in user space that a device could use; use a u-dma-buf (/dev/udmabuf0)";
  if (strncmp(path, "/dev/vfio", 9) == 0 || strcmp(path, "/dev/iommu") == 0)
    return "VFIO is not supported; bind the device to uio_pdrv_genirq (/dev/uio0)";
  return NULL;
}

/* Behind an IOMMU that translates addresses, the transfers of a device that uses physical ones are blocked. folder: the UIO device's. */
static int translates(lds_linux *board, const char *uio, const char *folder) {
  char path[320], type[24] = "";
  FILE *f;
  (void)snprintf(path, sizeof path, "%s/device/iommu_group/type", folder);
  f = fopen(path, "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%23s", type) != 1) type[0] = '\0';
  (void)fclose(f);
  if (strcmp(type, "identity") == 0) return 0;
  (void)snprintf(board->message, sizeof board->message,
                 "%.80s: its IOMMU translates addresses (iommu_group/type is '%s'); boot with iommu.passthrough=1", uio, type);
  return 1;
}

/* --- the interrupt ----------------------------------------------------------------------------------------------------------- */
static int irq_ack(void *ctx) {
  const uint32_t on = 1;
  return write(((lds_linux *)ctx)->fd, &on, sizeof on) == (ssize_t)sizeof on ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  struct pollfd waiting;
  struct timespec limit;
  uint32_t count;
  int found;
  waiting.fd = ((lds_linux *)ctx)->fd;
  waiting.events = POLLIN;
  limit.tv_sec = (time_t)(timeout_ns / 1000000000u % 1000000u);
  limit.tv_nsec = (long)(timeout_ns % 1000000000u);
  found = ppoll(&waiting, 1, &limit, NULL);
  if (found == 0 || (found < 0 && errno == EINTR)) return LDS_HAL_TIMEOUT;
  return found == 1 && read(waiting.fd, &count, sizeof count) == (ssize_t)sizeof count ? LDS_HAL_OK : LDS_HAL_FAILED;
}

/* --- memory of u-dma-buf ----------------------------------------------------------------------------------------------------- */
static int write_number(const lds_linux *board, const char *file, unsigned long long value) {
  char path[320], text[24];
  const int length = snprintf(text, sizeof text, "%llu", value);
  int fd, done;
  (void)snprintf(path, sizeof path, "%s/%s", board->udmabuf, file);
  fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  done = write(fd, text, (size_t)length) == (ssize_t)length;
  (void)close(fd);
  return done;
}

/* The kernel numbers the directions as this HAL does: 1 to the device, 2 from it. */
static int dma_sync(void *ctx, const lds_dma_buffer *buffer, size_t offset, size_t size_bytes, int direction) {
  const lds_linux *board = ctx;
  const size_t begin = (size_t)((const uint8_t *)buffer->cpu - board->pool.cpu) + offset;
  return write_number(board, "sync_offset", begin) && write_number(board, "sync_size", size_bytes) &&
                 write_number(board, "sync_direction", (unsigned long long)direction) &&
                 write_number(board, direction == LDS_DMA_TO_DEVICE ? "sync_for_device" : "sync_for_cpu", 1)
             ? LDS_HAL_OK
             : LDS_HAL_FAILED;
}

/* Modes 0 and 4 are cached even with O_SYNC: coherence is maintained by hardware, or by these callbacks. */
static int map_udmabuf(lds_linux *board, const char *udmabuf, uint64_t bus_offset, const char *sysfs) {
  lds_pool *pool = &board->pool;
  char folder[sizeof board->udmabuf];
  uint64_t size_bytes, physical, mode, coherent;
  (void)snprintf(folder, sizeof folder, "%.160s/u-dma-buf/%.50s", sysfs, name_in(udmabuf));
  if (access(folder, F_OK) != 0) (void)snprintf(folder, sizeof folder, "%.160s/udmabuf/%.50s", sysfs, name_in(udmabuf)); /* before 2.0 */
  if (access(folder, F_OK) != 0) (void)snprintf(folder, sizeof folder, "%.160s/u-dma-buf/%.50s", sysfs, name_in(udmabuf));
  if (!number_in(board, folder, "size", SIZE_MAX, &size_bytes) || !number_in(board, folder, "phys_addr", UINT64_MAX, &physical)) return 0;
  if (!number_in(board, folder, "sync_mode", 7, &mode) || !number_in(board, folder, "dma_coherent", 1, &coherent)) return 0;
  errno = 0;
  board->memory_fd = open(udmabuf, O_RDWR | O_SYNC | O_CLOEXEC);
  if (board->memory_fd < 0 || !lds_linux_lock(board, board->memory_fd, udmabuf)) return 0;
  if ((mode & 3u) == 0 && coherent == 0) {
    memcpy(board->udmabuf, folder, sizeof folder);
    board->hal.dma_sync = dma_sync;
  }
  pool->size_bytes = (size_t)size_bytes;
  pool->bus = physical + bus_offset;
  pool->cpu = lds_linux_map(board, board->memory_fd, 0, pool->size_bytes, pool->bus, udmabuf);
  return pool->cpu != NULL;
}

/* --- the maps of the UIO device ---------------------------------------------------------------------------------------------- */
/* The kernel maps whole pages, and states the offset of a map in its first page: 0 is required, as registers and memory begin there. */
static int begins_a_page(lds_linux *board, const char *folder, const char *map) {
  char file[32], path[320];
  uint64_t offset;
  (void)snprintf(file, sizeof file, "maps/%s/offset", map);
  (void)snprintf(path, sizeof path, "%s/%s", folder, file);
  if (access(path, F_OK) != 0) return 1; /* before Linux 2.6.31 */
  if (!number_in(board, folder, file, UINT64_MAX, &offset)) return 0;
  if (offset == 0) return 1;
  (void)snprintf(board->message, sizeof board->message, "%.180s: %#llx; let reg in the device tree begin at a page", path,
                 (unsigned long long)offset);
  return 0;
}

/* The rest of the last page of map 0 does not belong to the device. */
static int map_registers(lds_linux *board, const char *uio, size_t needed_bytes, const char *folder) {
  uint64_t size_bytes;
  if (!begins_a_page(board, folder, "map0") || !number_in(board, folder, "maps/map0/size", SIZE_MAX, &size_bytes)) return 0;
  board->registers_bytes = (size_t)size_bytes;
  if (size_bytes < needed_bytes) {
    (void)snprintf(board->message, sizeof board->message,
                   "%.100s: map 0 has %#lx bytes, the register block %#lx: widen reg in the device tree", uio,
                   (unsigned long)board->registers_bytes, (unsigned long)needed_bytes);
    return 0;
  }
  board->registers = lds_linux_map(board, board->fd, 0, board->registers_bytes, 0, uio);
  return board->registers != NULL;
}

static int map_memory(lds_linux *board, const char *uio, uint64_t bus_offset, const char *folder) {
  lds_pool *pool = &board->pool;
  uint64_t size_bytes, physical;
  if (!begins_a_page(board, folder, "map1") || !number_in(board, folder, "maps/map1/size", SIZE_MAX, &size_bytes) ||
      !number_in(board, folder, "maps/map1/addr", UINT64_MAX, &physical))
    return 0;
  if (!lds_linux_is_reserved(board, "/proc/iomem", board->fd, 0, physical, size_bytes)) return 0;
  pool->size_bytes = (size_t)size_bytes;
  pool->bus = physical + bus_offset;
  board->memory_fd = board->fd;
  /* UIO: map n begins at n pages. */
  pool->cpu = lds_linux_map(board, board->fd, (uint64_t)sysconf(_SC_PAGESIZE), pool->size_bytes, pool->bus, uio);
  return pool->cpu != NULL;
}

int lds_linux_open_uio(lds_linux *board, const char *uio, size_t registers_bytes, const char *udmabuf, uint64_t bus_offset,
                       const char *sysfs) {
  const char *memory = udmabuf != NULL ? udmabuf : uio, *path = unsupported(uio) != NULL ? uio : memory;
  char folder[256];
  int mapped;
  if (sysfs == NULL) sysfs = "/sys/class";
  (void)snprintf(folder, sizeof folder, "%.160s/uio/%.50s", sysfs, name_in(uio));
  lds_linux_begin(board);
  errno = 0;
  if (unsupported(path) != NULL) return lds_linux_fail(board, unsupported(path), path);
  board->fd = open(uio, O_RDWR | O_SYNC | O_CLOEXEC);
  if (board->fd < 0) return lds_linux_fail(board, "cannot open", uio);
  if (!lds_linux_lock(board, board->fd, uio)) return lds_linux_fail(board, "cannot be locked", uio);
  errno = 0;
  if (translates(board, uio, folder)) return lds_linux_fail(board, "", uio);
  if (!map_registers(board, uio, registers_bytes, folder)) return lds_linux_fail(board, "no registers", uio);
  mapped = udmabuf != NULL ? map_udmabuf(board, udmabuf, bus_offset, sysfs) : map_memory(board, uio, bus_offset, folder);
  if (!mapped) return lds_linux_fail(board, "cannot open", memory);
  if (irq_ack(board) == LDS_HAL_OK) {
    board->hal.irq_wait = irq_wait;
    board->hal.irq_ack = irq_ack;
  } else if (errno != EIO) {
    return lds_linux_fail(board, "cannot enable the interrupt", uio);
  }
  return LDS_HAL_OK;
}
