/* What an artifact was made from: a hash of some operators of a graph, with everything that decides what they compute.
 *
 * In:   LiteRT's context, node by node: lds_subgraph_begin, lds_subgraph_add ...
 * Out:  a CRC-32, the one that python/loadstone/hosts/litert.py computed of the file.
 * Next: delegate.c.
 *
 * It is the CRC-32 of little-endian 32-bit words and of the constants' bytes, operator by operator: its code; how many inputs, and each
 * one's index; how many outputs, and each one's index; how many of its options count, and each (parameters_of in subgraph.c); then of
 * each tensor that stands here for the first time: type, rank, dims, how many scales, each scale's bits, each zero point, 1 and the
 * content of a constant, 0 for other tensors. An absent input is the index -1, and nothing more.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SUBGRAPH_H
#define LDS_SUBGRAPH_H

#include "litert_api.h"

typedef struct lds_subgraph {
  litert_context *context;
  uint32_t crc;
  uint8_t *seen; /* by tensor: 1 when it is in the hash */
} lds_subgraph;

/* 0 when memory is out. */
int lds_subgraph_begin(lds_subgraph *graph, litert_context *context);
/* 0 when there is no such node. */
int lds_subgraph_add(lds_subgraph *graph, int node);
uint32_t lds_subgraph_end(lds_subgraph *graph);

#endif /* LDS_SUBGRAPH_H */
