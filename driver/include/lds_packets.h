/* Packets over a Unix socket, and descriptors that come with them: the framing of the simulator's protocol and of the server's.
 *
 * In:   the path of a socket of type SOCK_SEQPACKET; messages.
 * Out:  whole messages, each with at most one descriptor.
 * Next: hal_simd.c (python/loadstone/simulator/simd.py describes its messages); runtime/hosts/serve.h has those of a shared device.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_PACKETS_H
#define LDS_PACKETS_H

#include <stddef.h>
#include <stdint.h>

/* What each message begins with. An answer repeats kind and sequence of its request. */
typedef struct lds_packet {
  uint32_t kind, sequence, first, second;
} lds_packet;

/* A connection, or -1. timeout_s: for how long a message may take in either direction; 0: for ever. */
int lds_packets_connect(const char *path, long timeout_s);
/* Receives one message. Its bytes, at most size_bytes + 1 of one that is longer; 0: the other side has hung up; -1: errno says why.
 * *descriptor: the only one that came with it, which the caller closes, else -1. flags: of recvmsg. */
long lds_packets_receive(int channel, void *bytes, size_t size_bytes, int *descriptor, int flags);
/* Sends one, with a descriptor unless that is -1. Whether all of it went. flags: of sendmsg. */
int lds_packets_send(int channel, const void *bytes, size_t size_bytes, int descriptor, int flags);
/* Maps all of a memory file that nobody can make shorter, and that has size_bytes at least: an access beyond the end of another one
 * would raise SIGBUS. Its address differs from `bus` by a multiple of the largest alignment. NULL: no such file, or it cannot be mapped. */
void *lds_packets_map(int descriptor, uint64_t size_bytes, uint64_t bus);

#endif /* LDS_PACKETS_H */
