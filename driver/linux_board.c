/* The functions of linux_board.h.
 *
 * In:   file descriptors of registers and of reserved memory; /proc/locks, /proc/iomem.
 * Out:  mappings, lds_hal callbacks; or one line: another process uses the board, or Linux its memory.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, beside POSIX */
#define _FILE_OFFSET_BITS 64
#include "linux_board.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "map_shared.h"
#include "mmio.h"
#include "pool_shortage.h"

enum { SHORTEST_SLEEP_NS = 50 * 1000 };

static uint32_t read32(void *ctx, uint32_t offset) { return lds_mmio_read(((lds_linux *)ctx)->registers, offset); }

static void write32(void *ctx, uint32_t offset, uint32_t value) { lds_mmio_write(((lds_linux *)ctx)->registers, offset, value); }

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  lds_linux *board = ctx;
  const int status = lds_pool_alloc(&board->pool, size_bytes, align_bytes, flags, out);
  if (status != LDS_HAL_OK) lds_pool_shortage(&board->pool, size_bytes, align_bytes, board->message, sizeof board->message);
  return status;
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_linux *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A short wait ends before a sleep under Linux would. */
static void rest(void *ctx, uint64_t ns) {
  struct timespec t;
  (void)ctx;
  t.tv_sec = (time_t)(ns / 1000000000u);
  t.tv_nsec = (long)(ns % 1000000000u);
  if (ns < SHORTEST_SLEEP_NS) {
    (void)sched_yield();
  } else {
    (void)nanosleep(&t, NULL);
  }
}

void lds_linux_begin(lds_linux *board) {
  memset(board, 0, sizeof *board);
  board->fd = board->memory_fd = -1;
  board->pool.blocks = board->blocks;
  board->pool.capacity = LDS_LINUX_BLOCKS;
  board->hal.abi_version = LDS_HAL_ABI_VERSION;
  board->hal.ctx = board;
  board->hal.read32 = read32;
  board->hal.write32 = write32;
  board->hal.dma_alloc = dma_alloc;
  board->hal.dma_free = dma_free;
  board->hal.now_ns = now_ns;
  board->hal.rest = rest;
}

/* The process that holds the lock of a file, found by device and inode; 0: it is not visible. */
static long holder_of(const struct stat *file) {
  char line[256];
  long found = 0;
  FILE *locks = fopen("/proc/locks", "r");
  if (locks == NULL) return 0;
  while (found == 0 && fgets(line, sizeof line, locks) != NULL) {
    long process;
    unsigned major_number, minor_number;
    unsigned long inode;
    if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &process, &major_number, &minor_number, &inode) != 4) continue;
    if (inode == (unsigned long)file->st_ino && major_number == major(file->st_dev) && minor_number == minor(file->st_dev)) found = process;
  }
  (void)fclose(locks);
  return found;
}

int lds_linux_lock(lds_linux *board, int fd, const char *path) {
  char name[64] = "", comm[64];
  struct stat file;
  FILE *f;
  long process;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return 1;
  if (errno != EWOULDBLOCK) return 0;
  process = fstat(fd, &file) == 0 ? holder_of(&file) : 0;
  (void)snprintf(comm, sizeof comm, "/proc/%ld/comm", process);
  f = fopen(comm, "r");
  if (f != NULL) {
    if (fgets(name, sizeof name, f) != NULL) name[strcspn(name, "\n")] = 0;
    (void)fclose(f);
  }
  if (process > 0 && name[0] != 0) {
    (void)snprintf(board->message, sizeof board->message, "%s: in use by process %ld (%s)", path, process, name);
  } else if (process > 0) { /* a process that it forked still holds the lock */
    (void)snprintf(board->message, sizeof board->message,
                   "%.80s: in use by a child of process %ld, which is gone; `fuser -v %.80s` names it", path, process, path);
  } else {
    (void)snprintf(board->message, sizeof board->message, "%s: in use by another process", path);
  }
  return 0;
}

int lds_linux_is_reserved(lds_linux *board, const char *iomem, int fd, int registers, uint64_t begin, uint64_t size_bytes) {
  const char *what = registers ? "registers" : "DMA memory";
  char line[256];
  struct stat file;
  int seen = 0, clear = 1;
  FILE *f;
  if (fstat(fd, &file) != 0 || !S_ISCHR(file.st_mode) || size_bytes == 0) return 1;
  f = fopen(iomem, "r");
  while (f != NULL && clear && fgets(line, sizeof line, f) != NULL) {
    unsigned long long first, last;
    char name[64];
    if (sscanf(line, "%llx-%llx : %63[^\n]", &first, &last, name) != 3 || last == 0) continue;
    seen = 1;
    if (strncmp(name, "System RAM", 10) != 0 || begin > last || (begin < first && size_bytes <= first - begin)) continue;
    clear = 0;
    (void)snprintf(board->message, sizeof board->message, "%s at %#llx: Linux uses %#llx to %#llx (System RAM); %s", what,
                   (unsigned long long)begin, first, last,
                   registers ? "the device is elsewhere" : "reserve it with no-map in the device tree that boots");
  }
  if (f != NULL) (void)fclose(f);
  if (!seen)
    (void)snprintf(board->message, sizeof board->message,
                   "%s at %#llx: %s does not show whether Linux uses it; run as root, or use a u-dma-buf", what, (unsigned long long)begin,
                   iomem);
  return seen && clear;
}

void *lds_linux_map(lds_linux *board, int fd, uint64_t offset, size_t size_bytes, uint64_t bus, const char *what) {
  void *p = lds_map_shared(fd, (off_t)offset, size_bytes, bus);
  if (p != MAP_FAILED) return p;
  (void)snprintf(board->message, sizeof board->message, "%s: cannot map %lu bytes: %s", what, (unsigned long)size_bytes, strerror(errno));
  return NULL;
}

int lds_linux_fail(lds_linux *board, const char *what, const char *path) {
  char message[sizeof board->message];
  if (board->message[0] == '\0') {
    (void)snprintf(board->message, sizeof board->message, "%s: %s%s%s", path, what, errno != 0 ? ": " : "",
                   errno != 0 ? strerror(errno) : "");
  }
  memcpy(message, board->message, sizeof message);
  lds_linux_close(board);
  memcpy(board->message, message, sizeof message);
  return LDS_HAL_FAILED;
}

void lds_linux_close(lds_linux *board) {
  if (board->registers != NULL) (void)munmap(board->registers, board->registers_bytes);
  if (board->pool.cpu != NULL) (void)munmap(board->pool.cpu, board->pool.size_bytes);
  if (board->memory_fd >= 0 && board->memory_fd != board->fd) (void)close(board->memory_fd);
  if (board->fd >= 0) (void)close(board->fd);
  lds_linux_begin(board);
}
