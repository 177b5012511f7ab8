/* The functions of lds_packets.h.
 *
 * In:   the path of a socket of type SOCK_SEQPACKET; messages.
 * Out:  whole messages, each with at most one descriptor; mappings of memory files.
 * Next: hal_simd.c, runtime/hosts/serve.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* SOCK_CLOEXEC, MSG_CMSG_CLOEXEC, F_GET_SEALS */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lds_packets.h"
#include "map_shared.h"

int lds_packets_connect(const char *path, long timeout_s) {
  const struct timeval timeout = {timeout_s, 0};
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

long lds_packets_receive(int channel, void *bytes, size_t size_bytes, int *descriptor, int flags) {
  uint8_t extra; /* else a longer message would be cut to the right size */
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(4 * sizeof(int))];
  } control;
  struct iovec part[2];
  struct msghdr message;
  ssize_t got;
  memset(&message, 0, sizeof message);
  memset(&control, 0, sizeof control);
  part[0].iov_base = bytes;
  part[0].iov_len = size_bytes;
  part[1].iov_base = &extra;
  part[1].iov_len = 1;
  message.msg_iov = part;
  message.msg_iovlen = 2;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  *descriptor = -1;
  do got = recvmsg(channel, &message, flags | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got >= 0) *descriptor = only_descriptor(&message);
  return (long)got;
}

int lds_packets_send(int channel, const void *bytes, size_t size_bytes, int descriptor, int flags) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part;
  struct msghdr message;
  ssize_t sent;
  memset(&message, 0, sizeof message);
  memset(&control, 0, sizeof control);
  part.iov_base = (void *)(uintptr_t)bytes;
  part.iov_len = size_bytes;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
  }
  do sent = sendmsg(channel, &message, flags | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)size_bytes;
}

void *lds_packets_map(int descriptor, uint64_t size_bytes, uint64_t bus) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat file;
  void *cpu;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return NULL;
  if (fstat(descriptor, &file) != 0 || file.st_size < 0 || size_bytes > (uint64_t)file.st_size) return NULL;
  if (size_bytes == 0 || size_bytes > SIZE_MAX || bus > UINT64_MAX - (size_bytes - 1u)) return NULL;
  cpu = lds_map_shared(descriptor, 0, (size_t)size_bytes, bus);
  return cpu == MAP_FAILED ? NULL : cpu;
}
