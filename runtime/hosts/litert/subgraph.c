/* subgraph.h: hashes operators as the interpreter has them.
 *
 * In:   nodes.
 * Out:  a CRC-32 (zlib's).
 * Next: delegate.c compares it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "subgraph.h"

#include <stdlib.h>
#include <string.h>

/* Operators whose options are not all seen in shapes: how many 32-bit words of builtin_data count (tflite/c/builtin_op_data.h). Padding,
 * strides, activation, dilation; an axis; a slope. These structures, too, only grow at their ends. */
static const struct {
  int32_t code;
  int words;
} parameters_of[] = {
    {0, 1},  /* ADD: activation */
    {1, 6},  /* AVERAGE_POOL_2D: padding, stride_w, stride_h, filter_w, filter_h, activation */
    {2, 2},  /* CONCATENATION: axis, activation */
    {3, 6},  /* CONV_2D: padding, stride_w, stride_h, activation, dilation_w, dilation_h */
    {4, 7},  /* DEPTHWISE_CONV_2D: padding, stride_w, stride_h, depth_multiplier, activation, dilation_w, dilation_h */
    {9, 1},  /* FULLY_CONNECTED: activation */
    {17, 6}, /* MAX_POOL_2D: as AVERAGE_POOL_2D */
    {18, 1}, /* MUL: activation */
    {25, 1}, /* SOFTMAX: beta */
    {41, 1}, /* SUB: activation */
    {98, 1}, /* LEAKY_RELU: alpha */
};

static uint32_t crc_of(uint32_t crc, const void *bytes, size_t size_bytes) {
  static const uint32_t nibbles[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                       0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  const uint8_t *p = bytes;
  size_t k;
  crc = ~crc;
  for (k = 0; k < size_bytes; ++k) {
    crc ^= p[k];
    crc = crc >> 4 ^ nibbles[crc & 15u];
    crc = crc >> 4 ^ nibbles[crc & 15u];
  }
  return ~crc;
}

static void put(lds_subgraph *graph, uint32_t word) {
  const uint8_t bytes[4] = {(uint8_t)word, (uint8_t)(word >> 8), (uint8_t)(word >> 16), (uint8_t)(word >> 24)};
  graph->crc = crc_of(graph->crc, bytes, sizeof bytes);
}

static void put_bits(lds_subgraph *graph, const void *word) {
  uint32_t bits;
  memcpy(&bits, word, sizeof bits);
  put(graph, bits);
}

static void put_quantization(lds_subgraph *graph, const litert_tensor *t) {
  const litert_affine *affine = t->quantization.type == LITERT_AFFINE_QUANTIZATION ? t->quantization.params : NULL;
  int count = affine != NULL && affine->scale != NULL ? affine->scale->size : 0, k;
  if (count == 1 && affine->scale->data[0] == 0.0f) count = 0; /* as old converters wrote tensors without quantization */
  put(graph, (uint32_t)count);
  for (k = 0; k < count; ++k) put_bits(graph, &affine->scale->data[k]);
  for (k = 0; k < count; ++k) {
    const litert_ints *zeros = affine->zero_point;
    put(graph, zeros == NULL || zeros->size == 0 ? 0 : (uint32_t)zeros->data[zeros->size == 1 ? 0 : k < zeros->size ? k : 0]);
  }
}

static int put_tensor(lds_subgraph *graph, int index) {
  const litert_tensor *t;
  int k;
  if (index == LITERT_OPTIONAL_TENSOR) return 1;
  if (index < 0 || (size_t)index >= graph->context->tensors_size) return 0;
  if (graph->seen[index] != 0) return 1;
  graph->seen[index] = 1;
  t = &graph->context->tensors[index];
  put(graph, (uint32_t)t->type);
  put(graph, t->dims != NULL ? (uint32_t)t->dims->size : 0);
  for (k = 0; t->dims != NULL && k < t->dims->size; ++k) put(graph, (uint32_t)t->dims->data[k]);
  put_quantization(graph, t);
  put(graph, t->allocation_type == LITERT_MMAP_RO);
  if (t->allocation_type == LITERT_MMAP_RO) graph->crc = crc_of(graph->crc, t->data, t->bytes);
  return 1;
}

static void put_indices(lds_subgraph *graph, const litert_ints *indices) {
  int k;
  put(graph, (uint32_t)indices->size);
  for (k = 0; k < indices->size; ++k) put(graph, (uint32_t)indices->data[k]);
}

static void put_parameters(lds_subgraph *graph, int32_t code, const void *builtin_data) {
  size_t k;
  int words = 0, w;
  for (k = 0; k < sizeof parameters_of / sizeof parameters_of[0]; ++k) {
    if (parameters_of[k].code == code) words = parameters_of[k].words;
  }
  if (builtin_data == NULL) words = 0;
  put(graph, (uint32_t)words);
  for (w = 0; w < words; ++w) put_bits(graph, (const uint8_t *)builtin_data + 4 * w);
}

int lds_subgraph_begin(lds_subgraph *graph, litert_context *context) {
  graph->context = context;
  graph->crc = 0;
  graph->seen = calloc(context->tensors_size + 1u, 1);
  return graph->seen != NULL;
}

int lds_subgraph_add(lds_subgraph *graph, int index) {
  litert_node *node = NULL;
  litert_registration *registration = NULL;
  int k;
  if (graph->context->get_node_and_registration(graph->context, index, &node, &registration) != LITERT_OK) return 0;
  put(graph, (uint32_t)registration->builtin_code);
  put_indices(graph, node->inputs);
  put_indices(graph, node->outputs);
  put_parameters(graph, registration->builtin_code, node->builtin_data);
  for (k = 0; k < node->inputs->size; ++k) {
    if (!put_tensor(graph, node->inputs->data[k])) return 0;
  }
  for (k = 0; k < node->outputs->size; ++k) {
    if (!put_tensor(graph, node->outputs->data[k])) return 0;
  }
  return 1;
}

uint32_t lds_subgraph_end(lds_subgraph *graph) {
  free(graph->seen);
  graph->seen = NULL;
  return graph->crc;
}
