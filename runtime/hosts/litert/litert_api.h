/* What the delegate uses of LiteRT's C interface, as of LiteRT 2.3 (tflite/core/c/common.h), which is in no registry.
 *
 * In:   nothing: the interpreter hands in every function.
 * Out:  the few structures, each up to the last field that is read or written.
 * Next: delegate.c. Fields of these structures are only ever added at their ends (LiteRT calls that "semi-ABI stable"); that they are
 *       where this file says is checked at load time: the subgraphs' hashes are made of what is read through them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_LITERT_API_H
#define LDS_LITERT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { LITERT_OK = 0, LITERT_ERROR = 1 } litert_status;
enum { LITERT_OPTIONAL_TENSOR = -1, LITERT_MMAP_RO = 1, LITERT_AFFINE_QUANTIZATION = 1 };

typedef struct litert_ints {
  int size;
  int data[]; /* size of them */
} litert_ints;

typedef struct litert_floats {
  int size;
  float data[];
} litert_floats;

typedef struct litert_affine {
  litert_floats *scale;
  litert_ints *zero_point;
  int32_t axis;
} litert_affine;

typedef struct litert_tensor {
  int type;
  void *data;
  litert_ints *dims;
  struct {
    float scale;
    int32_t zero_point;
  } params; /* old: of one scale */
  int allocation_type;
  size_t bytes;
  const void *allocation;
  const char *name;
  void *delegate;
  int buffer_handle;
  bool data_is_stale, is_variable;
  struct {
    int type;
    void *params; /* litert_affine */
  } quantization;
  void *sparsity;
  const litert_ints *dims_signature;
} litert_tensor;

typedef struct litert_node {
  litert_ints *inputs, *outputs, *intermediates, *temporaries;
  void *user_data, *builtin_data;
} litert_node;

typedef struct litert_context litert_context;
typedef struct litert_delegate litert_delegate;

/* Written by us in whole, so it has all fields. */
typedef struct litert_registration {
  void *(*init)(litert_context *context, const char *buffer, size_t length);
  void (*free)(litert_context *context, void *buffer);
  litert_status (*prepare)(litert_context *context, litert_node *node);
  litert_status (*invoke)(litert_context *context, litert_node *node);
  const char *(*profiling_string)(const litert_context *context, const litert_node *node);
  int32_t builtin_code;
  const char *custom_name;
  int version;
  void *registration_external;
  void *(*async_kernel)(litert_context *context, litert_node *node);
  uint64_t inplace_operator;
} litert_registration;

/* What `init` of a delegate's kernel is given. */
typedef struct litert_delegate_params {
  litert_delegate *delegate;
  litert_ints *nodes_to_replace, *input_tensors, *output_tensors;
} litert_delegate_params;

struct litert_context {
  size_t tensors_size;
  litert_status (*get_execution_plan)(litert_context *context, litert_ints **plan);
  litert_tensor *tensors;
  void *impl;
  litert_status (*resize_tensor)(litert_context *context, litert_tensor *tensor, litert_ints *size);
  void (*report_error)(litert_context *context, const char *format, ...);
  litert_status (*add_tensors)(litert_context *context, int count, int *first);
  litert_status (*get_node_and_registration)(litert_context *context, int index, litert_node **node, litert_registration **registration);
  litert_status (*replace_nodes)(litert_context *context, litert_registration registration, const litert_ints *nodes,
                                 litert_delegate *delegate);
  int recommended_num_threads;
  void *(*get_external_context)(litert_context *context, int type);
  void (*set_external_context)(litert_context *context, int type, void *external);
  bool allow_fp32_relax_to_fp16;
  void *profiler;
  void *(*allocate_persistent_buffer)(litert_context *context, size_t bytes);
  litert_status (*allocate_buffer_for_eval)(litert_context *context, size_t bytes, void **out);
  litert_status (*request_scratch_buffer)(litert_context *context, size_t bytes, int *index);
  void *(*get_scratch_buffer)(litert_context *context, int index);
  litert_status (*resize_tensor_explicit)(litert_context *context, litert_tensor *tensor, int dims, const int *shape);
  litert_status (*preview_partitioning)(litert_context *context, const litert_ints *nodes, litert_delegate_params **out, int *count);
  litert_tensor *(*get_tensor)(const litert_context *context, int index);
  void *(*get_eval_tensor)(const litert_context *context, int index);
  litert_status (*get_model_metadata)(const litert_context *context, const char *name, const char **data, size_t *bytes);
};

struct litert_delegate {
  void *data;
  litert_status (*prepare)(litert_context *context, litert_delegate *delegate);
  litert_status (*copy_from_buffer_handle)(litert_context *context, litert_delegate *delegate, int handle, litert_tensor *tensor);
  litert_status (*copy_to_buffer_handle)(litert_context *context, litert_delegate *delegate, int handle, litert_tensor *tensor);
  void (*free_buffer_handle)(litert_context *context, litert_delegate *delegate, int *handle);
  int64_t flags;
  void *opaque_delegate_builder;
};

#endif /* LDS_LITERT_API_H */
