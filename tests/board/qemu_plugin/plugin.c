/* A board's register page, answered by another process: a plug-in for QEMU 7.2's system emulators.
 *
 * In:   -plugin lds_board.so,socket=PATH,base=ADDRESS,intc=TYPE-OR-PATH,irq=LINE and `loadstone simd` listening at PATH.
 * Out:  4 KiB of registers at ADDRESS, whose accesses go to that process; its interrupt on input LINE of the controller.
 * Next: docs/boards/emulated.md. The protocol is that of python/loadstone/simulator/simd.py; DMA goes through a file, not through here.
 *
 * QEMU has no header for devices outside its tree. The declarations below mirror those of QEMU 7.2 by hand, so the plug-in
 * asks QEMU for its version, and reads one register of its own through QEMU's memory core, before it believes them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later
 * Copyright The Loadstone contributors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public License as
 * published by the Free Software Foundation; either version 2 of the License, or (at your option) any later version. It comes
 * without any warranty. It uses symbols of QEMU, which is under GPL-2: see LICENSE beside this file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- QEMU 7.2, mirrored ---- */
typedef struct Object Object;
typedef struct MemoryRegion MemoryRegion;
typedef struct qemu_irq_state *qemu_irq;
typedef struct {
  int64_t major, minor, micro;
} VersionTriple;
typedef struct {
  VersionTriple *qemu;
  char *package;
} VersionInfo;
typedef struct Notifier {
  void (*notify)(struct Notifier *notifier, void *data);
  struct Notifier *next, **previous;
} Notifier;
typedef struct {
  uint64_t (*read)(void *opaque, uint64_t offset, unsigned size);
  void (*write)(void *opaque, uint64_t offset, uint64_t value, unsigned size);
  void *read_with_attrs, *write_with_attrs;
  int endianness; /* 2: little */
  struct {
    unsigned min_access_size, max_access_size;
    bool unaligned;
    void *accepts;
  } valid;
  struct {
    unsigned min_access_size, max_access_size;
    bool unaligned;
  } impl;
} MemoryRegionOps;

VersionInfo *qmp_query_version(void **error);
void qapi_free_VersionInfo(VersionInfo *info);
void qemu_add_machine_init_done_notifier(Notifier *notifier);
void qemu_set_fd_handler(int fd, void (*readable)(void *opaque), void (*writable)(void *opaque), void *opaque);
MemoryRegion *get_system_memory(void);
void memory_region_init_io(MemoryRegion *region, Object *owner, const MemoryRegionOps *ops, void *opaque, const char *name, uint64_t size);
void memory_region_add_subregion_overlap(MemoryRegion *parent, uint64_t offset, MemoryRegion *region, int priority);
void cpu_physical_memory_rw(uint64_t address, void *buffer, uint64_t size, bool is_write);
Object *object_resolve_path(const char *path, bool *ambiguous);
Object *object_resolve_path_type(const char *path, const char *type, bool *ambiguous);
qemu_irq qdev_get_gpio_in(Object *device, int line);
void qemu_set_irq(qemu_irq irq, int level);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

/* ---- The simulator process ---- */
/* The first answer may be late, when the machine that both run on is busy; a simulator that has answered once is given up sooner. */
enum { PAGE_BYTES = 4096, PROTOCOL_VERSION = 2, GREETING_TIMEOUT_S = 60, ANSWER_TIMEOUT_S = 5 };
enum { KIND_HELLO = 0, KIND_READ = 1, KIND_WRITE = 2, KIND_IRQ = 3, KIND_POST = 4 };
typedef struct {
  uint32_t kind, sequence, first, second; /* request: offset, value; answer: value, interrupt level */
} packet;
typedef struct {
  packet head;
  uint32_t page_bytes, shares;
  uint64_t memory_base, memory_bytes;
} welcome;

static const char *socket_path, *controller;
static uint64_t base;
static long line = -1;
static int channel = -1, line_level;
static int unasked = -1; /* readable when the channel is, and no request is on its way */
static uint32_t sequence;
static qemu_irq irq;
static bool probing, shares;

static void die(const char *what, const char *detail) {
  fprintf(stderr, "lds_board: %s%s\n", what, detail);
  exit(1);
}

/* A level that has not changed is not said again: QEMU's PLIC would take that for another interrupt. */
static void set_line(int level) {
  if (level == line_level) return;
  line_level = level;
  qemu_set_irq(irq, level);
}

/* Without its simulator the page reads as an empty bus does: all ones, writes are lost, no interrupt. The guest goes on. */
static void unplug(const char *why) {
  if (channel < 0) return;
  fprintf(stderr, "lds_board: the simulator is gone (%s)\n", why);
  qemu_set_fd_handler(unasked, NULL, NULL, NULL);
  close(channel);
  channel = -1;
  set_line(0);
}

/* A packet, and its own length, so that a longer one is none (MSG_TRUNC). A signal ends a wait that has a timeout, whatever SA_RESTART
 * says (man 7 signal): it begins anew. */
static ssize_t receive(void *to, size_t size) {
  ssize_t got;
  do got = recv(channel, to, size, MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  return got;
}

static void answer_within(long seconds) {
  struct timeval timeout = {.tv_sec = seconds};
  setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

static void request(const packet *p) {
  ssize_t sent;
  if (channel < 0) return;
  do sent = send(channel, p, sizeof *p, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent != (ssize_t)sizeof *p) unplug(strerror(errno));
}

/* While an answer is waited for, QEMU's main loop is not to wake up for it. */
static void listen_for_interrupts(bool on) {
  struct epoll_event event = {.events = on ? EPOLLIN : 0};
  epoll_ctl(unasked, EPOLL_CTL_MOD, channel, &event);
}

/* One request, one answer. Interrupts that come before the answer are
 * older than it, and are delivered first. */
static uint32_t call(uint32_t kind, uint32_t offset, uint32_t value) {
  packet p = {kind, ++sequence, offset, value};
  listen_for_interrupts(false);
  request(&p);
  while (channel >= 0) {
    ssize_t got = receive(&p, sizeof p);
    if (got != (ssize_t)sizeof p) {
      unplug(got < 0 ? strerror(errno) : "closed");
      break;
    }
    set_line(p.second & 1);
    if (p.kind == KIND_IRQ) continue;
    if (p.kind == kind && p.sequence == sequence) {
      listen_for_interrupts(true);
      return p.first;
    }
    unplug("an answer out of order");
  }
  return UINT32_MAX;
}

static uint64_t page_read(void *opaque, uint64_t offset, unsigned size) {
  (void)opaque;
  (void)size;
  return probing ? ~(uint32_t)offset : call(KIND_READ, (uint32_t)offset, 0);
}

static void page_write(void *opaque, uint64_t offset, uint64_t value, unsigned size) {
  (void)opaque;
  (void)size;
  if (line_level != 0 || shares) { /* nothing orders requests of two sockets; a write that may lower the line is waited for */
    call(KIND_WRITE, (uint32_t)offset, (uint32_t)value);
  } else {
    const packet p = {KIND_POST, 0, (uint32_t)offset, (uint32_t)value};
    request(&p);
  }
}

/* An interrupt while the guest does not touch the page. A packet may have been taken by `call` meanwhile. */
static void channel_readable(void *opaque) {
  packet p;
  ssize_t got = recv(channel, &p, sizeof p, MSG_DONTWAIT | MSG_TRUNC);
  (void)opaque;
  if (got == (ssize_t)sizeof p && p.kind == KIND_IRQ) {
    set_line(p.second & 1);
  } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
    unplug(got < 0 ? strerror(errno) : "closed");
  }
}

/* The size of the page that is behind the socket. */
static uint64_t connect_simulator(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  packet hello = {KIND_HELLO, 0, PROTOCOL_VERSION, 0};
  welcome answer = {.page_bytes = 0};
  if (strlen(socket_path) >= sizeof address.sun_path) die("socket path too long: ", socket_path);
  strcpy(address.sun_path, socket_path);
  channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (channel < 0 || connect(channel, (struct sockaddr *)&address, sizeof address)) die("no `loadstone simd` listens at ", socket_path);
  answer_within(GREETING_TIMEOUT_S);
  if (send(channel, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello ||
      receive(&answer, sizeof answer) != (ssize_t)sizeof answer)
    die("no `loadstone simd` answers at ", socket_path);
  answer_within(ANSWER_TIMEOUT_S);
  if (answer.head.first != PROTOCOL_VERSION) die("another version of the protocol is spoken at ", socket_path);
  if (answer.page_bytes == 0 || answer.page_bytes % PAGE_BYTES) die("a register page of an odd size is offered at ", socket_path);
  shares = answer.shares != 0;
  return answer.page_bytes;
}

/* Puts the page into the machine, and reads it once through QEMU to see that the structures above are QEMU's. */
static void map_page(uint64_t size) {
  static const MemoryRegionOps ops = {.read = page_read,
                                      .write = page_write,
                                      .endianness = 2,
                                      .valid = {.min_access_size = 4, .max_access_size = 4},
                                      .impl = {.min_access_size = 4, .max_access_size = 4}};
  static _Alignas(16) unsigned char region[4096]; /* a MemoryRegion is under 300 bytes */
  uint32_t probe = 0;
  memory_region_init_io((MemoryRegion *)region, NULL, &ops, NULL, "loadstone", size);
  memory_region_add_subregion_overlap(get_system_memory(), base, (MemoryRegion *)region, 1);
  probing = true;
  cpu_physical_memory_rw(base + 0x124, &probe, sizeof probe, false);
  probing = false;
  if (probe != ~(uint32_t)0x124) die("QEMU does not lay out MemoryRegionOps as 7.2 does", "");
}

static void machine_ready(Notifier *notifier, void *data) {
  bool ambiguous = false;
  Object *device =
      strchr(controller, '/') ? object_resolve_path(controller, &ambiguous) : object_resolve_path_type("", controller, &ambiguous);
  (void)notifier;
  (void)data;
  if (ambiguous) die("more than one interrupt controller is called ", controller);
  if (!device) die("no interrupt controller is called ", controller);
  irq = qdev_get_gpio_in(device, (int)line);
  map_page(connect_simulator());
  struct epoll_event event = {.events = EPOLLIN};
  unasked = epoll_create1(EPOLL_CLOEXEC);
  if (unasked < 0 || epoll_ctl(unasked, EPOLL_CTL_ADD, channel, &event) != 0) die("no epoll: ", strerror(errno));
  qemu_set_fd_handler(unasked, channel_readable, NULL, NULL);
}

static void check_qemu(void) {
  VersionInfo *version = qmp_query_version(NULL);
  if (version->qemu->major != 7 || version->qemu->minor != 2) {
    fprintf(stderr, "lds_board: this is QEMU %d.%d; the plug-in mirrors structures of 7.2 only\n", (int)version->qemu->major,
            (int)version->qemu->minor);
    exit(1);
  }
  qapi_free_VersionInfo(version);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
  static Notifier ready = {.notify = machine_ready};
  (void)id;
  (void)info;
  check_qemu();
  for (int i = 0; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    if (!value) die("an option without a value: ", argv[i]);
    value++;
    if (!strncmp(argv[i], "socket=", 7))
      socket_path = strdup(value);
    else if (!strncmp(argv[i], "base=", 5))
      base = strtoull(value, NULL, 0);
    else if (!strncmp(argv[i], "intc=", 5))
      controller = strdup(value);
    else if (!strncmp(argv[i], "irq=", 4))
      line = strtol(value, NULL, 0);
    else
      die("unknown option ", argv[i]);
  }
  if (!socket_path || !controller || line < 0 || base % PAGE_BYTES)
    die("needs socket=PATH,base=ADDRESS (a page's),intc=TYPE-OR-PATH,irq=LINE", "");
  qemu_add_machine_init_done_notifier(&ready);
  return 0;
}
