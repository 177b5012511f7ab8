/* The functions of lds_hal_simd.h: registers over a socket of packets, DMA memory from the file whose descriptor the server sends.
 *
 * In:   a server that python/loadstone/simulator/simd.py describes.
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* SOCK_CLOEXEC, MSG_CMSG_CLOEXEC, ppoll */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lds_hal_simd.h"
#include "lds_pool.h"
#include "map_shared.h"
#include "pool_shortage.h"

enum { BLOCKS = 4096, PROTOCOL_VERSION = 1, ANSWER_TIMEOUT_S = 10 };
enum { KIND_HELLO = 0, KIND_READ = 1, KIND_WRITE = 2, KIND_IRQ = 3 };

typedef struct packet {
  uint32_t kind, sequence, first, second; /* request: offset, value; answer: value, interrupt level */
} packet;

typedef struct welcome {
  packet head;
  uint32_t page_bytes, zero;
  uint64_t memory_bus, memory_bytes;
} welcome;

struct lds_hal_simd {
  lds_hal hal;
  int channel; /* -1: the server is gone */
  uint32_t sequence, level;
  lds_pool pool;
  lds_pool_block blocks[BLOCKS];
  char message[256];
};

/* --- packets ----------------------------------------------------------------------------------------------------------------- */
static void hang_up(lds_hal_simd *simd) {
  if (simd->channel >= 0) close(simd->channel);
  simd->channel = -1;
  simd->level = 0;
}

/* Receives the next packet and adopts its interrupt level. 0: the server has closed the connection, or sent a packet of another size. */
static int receive(lds_hal_simd *simd, packet *p) {
  uint8_t text[sizeof *p + 1u]; /* one extra byte: else a longer packet would be truncated to the right size */
  ssize_t got;
  do got = recv(simd->channel, text, sizeof text, 0);
  while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof *p) {
    hang_up(simd);
    return 0;
  }
  memcpy(p, text, sizeof *p);
  simd->level = p->second & 1u;
  return 1;
}

static uint32_t call(lds_hal_simd *simd, uint32_t kind, uint32_t offset, uint32_t value) {
  packet p;
  if (simd->channel < 0) return UINT32_MAX;
  p.kind = kind;
  p.sequence = ++simd->sequence;
  p.first = offset;
  p.second = value;
  if (send(simd->channel, &p, sizeof p, MSG_NOSIGNAL) != (ssize_t)sizeof p) {
    hang_up(simd);
    return UINT32_MAX;
  }
  do {
    if (!receive(simd, &p)) return UINT32_MAX;
  } while (p.kind == KIND_IRQ);
  if (p.kind == kind && p.sequence == simd->sequence) return p.first;
  hang_up(simd);
  return UINT32_MAX;
}

/* --- callbacks --------------------------------------------------------------------------------------------------------------- */
static uint32_t read32(void *ctx, uint32_t offset) { return call(ctx, KIND_READ, offset, 0); }

static void write32(void *ctx, uint32_t offset, uint32_t value) { (void)call(ctx, KIND_WRITE, offset, value); }

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  lds_hal_simd *simd = ctx;
  const int status = lds_pool_alloc(&simd->pool, size_bytes, align_bytes, flags, out);
  if (status != LDS_HAL_OK) lds_pool_shortage(&simd->pool, size_bytes, align_bytes, simd->message, sizeof simd->message);
  return status;
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_hal_simd *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  lds_hal_simd *simd = ctx;
  const uint64_t begin = now_ns(ctx);
  packet p;
  while (simd->level == 0) {
    const uint64_t passed = now_ns(ctx) - begin;
    struct pollfd readable;
    struct timespec left;
    if (simd->channel < 0 || passed >= timeout_ns) return LDS_HAL_TIMEOUT;
    readable.fd = simd->channel;
    readable.events = POLLIN;
    left.tv_sec = (time_t)((timeout_ns - passed) / 1000000000u % 1000000u);
    left.tv_nsec = (long)((timeout_ns - passed) % 1000000000u);
    if (ppoll(&readable, 1, &left, NULL) > 0) (void)receive(simd, &p);
  }
  return LDS_HAL_OK;
}

/* --- opening ----------------------------------------------------------------------------------------------------------------- */
static int connect_to(const char *path) {
  const struct timeval timeout = {ANSWER_TIMEOUT_S, 0};
  struct sockaddr_un address;
  int channel;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return -1;
  memcpy(address.sun_path, path, strlen(path));
  channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (channel < 0) return -1;
  if (setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0 &&
      setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0 &&
      connect(channel, (const struct sockaddr *)&address, sizeof address) == 0) {
    return channel;
  }
  close(channel);
  return -1;
}

/* The only descriptor of a message, or -1; any further descriptors are closed. The control messages are walked by their lengths, because
 * CMSG_NXTHDR of musl compares signed with unsigned. */
static int only_descriptor(const struct msghdr *message) {
  const unsigned char *next = message->msg_control;
  size_t left = message->msg_controllen;
  int found = -1, count = 0;
  while (left >= sizeof(struct cmsghdr)) {
    struct cmsghdr part;
    size_t bytes, space, k;
    memcpy(&part, next, sizeof part);
    if (part.cmsg_len < CMSG_LEN(0) || part.cmsg_len > left) break;
    bytes = part.cmsg_len - CMSG_LEN(0);
    for (k = 0; part.cmsg_level == SOL_SOCKET && part.cmsg_type == SCM_RIGHTS && k < bytes / sizeof(int); ++k) {
      if (found >= 0) close(found);
      memcpy(&found, next + CMSG_LEN(0) + k * sizeof(int), sizeof found);
      ++count;
    }
    space = CMSG_SPACE(bytes);
    if (space >= left) break;
    next += space;
    left -= space;
  }
  if (count == 1 && (message->msg_flags & MSG_CTRUNC) == 0) return found;
  if (found >= 0) close(found);
  return -1;
}

/* The answer to HELLO. LDS_HAL_OK: *memory is the descriptor of the memory file. */
static int greet(int channel, welcome *answer, int *memory) {
  packet hello = {KIND_HELLO, 0, PROTOCOL_VERSION, 0};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(4 * sizeof(int))];
  } control;
  uint8_t text[sizeof *answer + 1u];
  struct iovec part;
  struct msghdr message;
  ssize_t got;
  memset(&message, 0, sizeof message);
  memset(&control, 0, sizeof control);
  memset(answer, 0, sizeof *answer);
  part.iov_base = text;
  part.iov_len = sizeof text;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (send(channel, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) return LDS_HAL_FAILED;
  got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return LDS_HAL_FAILED;
  *memory = only_descriptor(&message);
  if (got == (ssize_t)sizeof *answer) {
    memcpy(answer, text, sizeof *answer);
  } else if (got == (ssize_t)sizeof answer->head) {
    memcpy(&answer->head, text, sizeof answer->head);
  }
  if (answer->head.kind != KIND_HELLO || got < (ssize_t)sizeof answer->head || got > (ssize_t)sizeof *answer) return LDS_HAL_FAILED;
  if (got == (ssize_t)sizeof answer->head && answer->head.first == 0) return LDS_HAL_TIMEOUT;
  if (answer->head.first != PROTOCOL_VERSION) return LDS_HAL_UNSUPPORTED;
  return got == (ssize_t)sizeof *answer && *memory >= 0 ? LDS_HAL_OK : LDS_HAL_FAILED;
}

/* If the server or another client truncated the file later, accesses here would raise SIGBUS: only a file that is sealed against
 * shrinking, and long enough, is mapped. */
static int open_memory(lds_hal_simd *simd, const welcome *answer, int memory) {
  const int seals = fcntl(memory, F_GET_SEALS);
  struct stat file;
  void *cpu;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return LDS_HAL_NO_MEMORY;
  if (fstat(memory, &file) != 0 || file.st_size < 0 || answer->memory_bytes > (uint64_t)file.st_size) return LDS_HAL_NO_MEMORY;
  if (answer->memory_bytes == 0 || answer->memory_bytes > SIZE_MAX) return LDS_HAL_NO_MEMORY;
  if (answer->memory_bus > UINT64_MAX - (answer->memory_bytes - 1u)) return LDS_HAL_NO_MEMORY;
  cpu = lds_map_shared(memory, 0, (size_t)answer->memory_bytes, answer->memory_bus);
  if (cpu == MAP_FAILED) return LDS_HAL_NO_MEMORY;
  simd->pool.cpu = cpu;
  simd->pool.bus = answer->memory_bus;
  simd->pool.size_bytes = (size_t)answer->memory_bytes;
  simd->pool.blocks = simd->blocks;
  simd->pool.capacity = BLOCKS;
  simd->level = answer->head.second & 1u;
  return LDS_HAL_OK;
}

int lds_hal_simd_open(const char *socket_path, lds_hal_simd **out) {
  lds_hal_simd *simd = calloc(1, sizeof *simd);
  welcome answer;
  int memory = -1, status = LDS_HAL_FAILED;
  if (simd == NULL) return LDS_HAL_NO_MEMORY;
  simd->hal.abi_version = LDS_HAL_ABI_VERSION;
  simd->hal.ctx = simd;
  simd->hal.read32 = read32;
  simd->hal.write32 = write32;
  simd->hal.dma_alloc = dma_alloc;
  simd->hal.dma_free = dma_free;
  simd->hal.irq_wait = irq_wait;
  simd->hal.now_ns = now_ns;
  simd->channel = connect_to(socket_path);
  if (simd->channel >= 0) status = greet(simd->channel, &answer, &memory);
  if (status == LDS_HAL_OK) status = open_memory(simd, &answer, memory);
  if (memory >= 0) close(memory);
  if (status == LDS_HAL_OK) {
    *out = simd;
  } else {
    lds_hal_simd_close(simd);
  }
  return status;
}

void lds_hal_simd_close(lds_hal_simd *simd) {
  if (simd == NULL) return;
  hang_up(simd);
  if (simd->pool.cpu != NULL) munmap(simd->pool.cpu, simd->pool.size_bytes);
  free(simd);
}

const lds_hal *lds_hal_simd_hal(lds_hal_simd *simd) { return &simd->hal; }

const char *lds_hal_simd_message(const lds_hal_simd *simd) { return simd->message; }
