/* A server in C, made for the sanitizers.
 *
 * In:   a device's name, the path of a socket; stdin, whose end ends it.
 * Out:  the name and the path on stderr, once it listens; exit status 0, with nothing left on the heap.
 * Next: test_serve_messages.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lds_serve.h"

int main(int argc, char **argv) {
  struct sockaddr_un address;
  lds_server *server;
  lds_server_counts counts;
  lds_easy_error error;
  int listening, status;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (argc != 3 || strlen(argv[2]) >= sizeof address.sun_path) return 2;
  memcpy(address.sun_path, argv[2], strlen(argv[2]));
  listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (listening < 0 || bind(listening, (const struct sockaddr *)&address, sizeof address) != 0 || listen(listening, 100) != 0) return 2;
  status = lds_server_open(argv[1], listening, &server, &error);
  if (status == LDS_OK) {
    (void)fprintf(stderr, "%s at %s\n", argv[1], argv[2]);
    status = lds_server_run(server, UINT64_MAX, STDIN_FILENO, &error);
    lds_server_counted(server, &counts);
    (void)printf("{\"networks\": %lu, \"refused\": %lu, \"runs\": %lu}\n", (unsigned long)counts.networks, (unsigned long)counts.refused,
                 (unsigned long)counts.runs);
    lds_server_close(server);
  }
  if (status != LDS_OK) (void)fprintf(stderr, "%s\n", error.text);
  (void)close(listening);
  (void)unlink(argv[2]);
  return status == LDS_OK ? 0 : 1;
}
