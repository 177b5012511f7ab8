/* What a server of a device and its clients say to each other. Private to runtime/hosts/.
 *
 * In:   -
 * Out:  the messages, and where tensors stand in the memory that both have.
 * Next: serve.c is the server, served.c a client.
 *
 * The socket is of type SOCK_SEQPACKET, and framed as that of a simulator (lds_packets.h): a message begins with kind, sequence, first,
 * second; an answer repeats kind and sequence. Integers are the machine's own. A client waits for an answer before its next request.
 *
 *     OPEN   first; first = version, second = priority; then 8 bytes each: period and deadline in nanoseconds (0: none). With it comes
 *            the descriptor of a memory file (memfd) that is the artifact. The answer comes with the descriptor of another one, sealed
 *            against any change of its size: all inputs, then all outputs of the model, each at a multiple of 64 bytes.
 *     RUN    first = the entry. The inputs stand in the memory, and are not changed until the answer comes, when the outputs stand there.
 *     RESET  the states become what they were.
 *
 * An answer's first is a status (LDS_OK, LDS_ERR_*), with the line that explains it; to RUN also how long the run took. What is no such
 * message ends the connection.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SERVE_MESSAGES_H
#define LDS_SERVE_MESSAGES_H

#include "lds_easy.h"
#include "lds_packets.h"

/* Kinds and version are none of a simulator's, so that neither is taken for the other. */
enum { LDS_SERVE_OPEN = 16, LDS_SERVE_RUN = 17, LDS_SERVE_RESET = 18, LDS_SERVE_VERSION = 2 };

typedef struct lds_serve_request {
  lds_packet head;
  uint64_t period_ns, deadline_ns; /* of OPEN alone */
} lds_serve_request;

typedef struct lds_serve_answer {
  lds_packet head;
  uint64_t response_ns, cycles; /* of the last run: from its release to its end, and what its own programs took */
  uint64_t response_cycles;     /* of it: of all blocks that ended meanwhile, its own and others' */
  uint64_t missed;              /* deadlines, of all runs so far */
  char text[LDS_EASY_TEXT_BYTES];
} lds_serve_answer;

/* Where an input stands in the memory, or the output of number `port - lds_model_input_count(model)`; of the port behind the last one:
 * the bytes of the memory, SIZE_MAX if no size_t holds them. *size_bytes, which may be NULL: of the tensor. */
size_t lds_serve_place(const lds_model *model, uint32_t port, size_t *size_bytes);

#endif /* LDS_SERVE_MESSAGES_H */
