/* Several processes on one device: a server has it, and runs what they ask for by priorities.
 *
 * In:   a device by its name (lds_easy.h), a socket that listens.
 * Out:  answers to its clients, whose device is called served:SOCKET.
 * Next: `loadstone serve DEVICE SOCKET` is such a process; docs/schedule.md.
 *
 * One thread does everything. The server validates each artifact, and refuses one whose programs depend on what ran before (rule V17). A
 * client reaches its own inputs and outputs alone; one that dies, breaks the protocol or reads no answers is dropped, and its run ends with
 * its block. An artifact of several VTAs gets the further ones as lds_easy.h says; each of its blocks has all devices.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SERVE_H
#define LDS_SERVE_H

#include "lds_easy.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LDS_SERVER_CLIENTS = 64 }; /* at a time; others wait until one goes */

typedef struct lds_server lds_server;

typedef struct lds_server_counts {
  uint64_t networks;       /* that were opened */
  uint64_t refused;        /* that were not */
  uint64_t runs, failures; /* that ended; of these with a status other than LDS_OK */
  uint64_t dropped;        /* clients that broke the protocol, or read no answers */
} lds_server_counts;

/* listening: a Unix socket of type SOCK_SEQPACKET that listens, which stays the caller's. */
LDS_EXPORT int lds_server_open(const char *device, int listening, lds_server **out, lds_easy_error *error);
/* Serves until so many clients whose networks were opened have gone, or the descriptor `stop` (-1: none) is readable. */
LDS_EXPORT int lds_server_run(lds_server *server, uint64_t clients, int stop, lds_easy_error *error);
LDS_EXPORT void lds_server_counted(const lds_server *server, lds_server_counts *out);
/* Ends all connections. NULL: nothing happens. */
LDS_EXPORT void lds_server_close(lds_server *server);

#ifdef __cplusplus
}
#endif

#endif /* LDS_SERVE_H */
