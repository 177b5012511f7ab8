/* One EPContext node of a model: its artifact, and what ONNX Runtime calls to run it.
 *
 * In:   the node, whose attribute ep_cache_context is the artifact; tensors.
 * Out:  the node's outputs.
 * Next: lds_easy.h.
 *
 * ONNX Runtime may give a fused node its inputs and outputs in an order of its own; the artifact's is that of the EPContext node.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "ort_text.h"

typedef struct kernel {
  ort_compute_info info; /* first: ONNX Runtime's pointer is ours */
  const ort_function *api;
  char *artifact;
  lds_easy *net;
  uint32_t inputs, outputs;
  uint32_t *place; /* of each input and output of the artifact, where ONNX Runtime has it */
} kernel;

/* ONNXTensorElementDataType of LDS_INT8, LDS_UINT8 ... */
static const int element_types[] = {3, 2, 5, 6, 7, 1, 10, 9, 16, 4, 12, 13, 11};
typedef char every_type_has_one[sizeof element_types / sizeof element_types[0] == LDS_ELEMENT_TYPES ? 1 : -1];

/* --- opening ----------------------------------------------------------------------------------------------------------------- */
typedef struct ports {
  int count_place, ports_place;
} ports;

static const ports input_ports = {ORT_NODE_GET_INPUT_COUNT, ORT_NODE_GET_INPUTS};
static const ports output_ports = {ORT_NODE_GET_OUTPUT_COUNT, ORT_NODE_GET_OUTPUTS};

static ort_status *ports_of(const ort_function *api, const ort_node *node, ports which, const ort_value_info ***out, size_t *count) {
  ort_status *status = ORT(api, which.count_place, ort_node_get_port_count)(node, count);
  *out = NULL;
  if (status != NULL) return status;
  *out = calloc(*count + 1u, sizeof **out);
  if (*out == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  return ORT(api, which.ports_place, ort_node_get_ports)(node, *out, *count);
}

static const char *name_of(const ort_function *api, const ort_value_info *info) {
  const char *name = NULL;
  ort_status *status = info != NULL ? ORT(api, ORT_GET_VALUE_INFO_NAME, ort_get_value_info_name)(info, &name) : NULL;
  if (status != NULL) ORT(api, ORT_RELEASE_STATUS, ort_release_status)(status);
  return name != NULL ? name : "";
}

/* place[k]: where port k of `node` is among those of `fused`. */
static ort_status *match_ports(const kernel *k, const ort_node *node, const ort_node *fused, ports which, uint32_t wanted,
                               uint32_t *place) {
  const ort_value_info **of_node = NULL, **of_fused = NULL;
  size_t count = 0, fused_count = 0, n, m;
  ort_status *status = ports_of(k->api, node, which, &of_node, &count);
  if (status == NULL) status = ports_of(k->api, fused, which, &of_fused, &fused_count);
  if (status == NULL && count != wanted) {
    status =
        lds_ort_fail(k->api, ORT_EP_FAIL, "model '%.100s' has %lu %s, its EPContext node has %lu", lds_easy_name(k->net),
                     (unsigned long)wanted, which.count_place == ORT_NODE_GET_INPUT_COUNT ? "inputs" : "outputs", (unsigned long)count);
  }
  for (n = 0; n < count && status == NULL; ++n) {
    for (m = 0; m < fused_count && strcmp(name_of(k->api, of_node[n]), name_of(k->api, of_fused[m])) != 0; ++m) continue;
    place[n] = (uint32_t)m;
    if (m == fused_count) {
      status = lds_ort_fail(k->api, ORT_EP_FAIL, "tensor '%.100s' of an EPContext node is missing from the fused node",
                            name_of(k->api, of_node[n]));
    }
  }
  free(of_node);
  free(of_fused);
  return status;
}

static ort_status *open_kernel(kernel *k, lds_easy_device *device, const ort_node *node, const ort_node *fused) {
  lds_easy_error error;
  size_t size = 0;
  ort_status *status = lds_ort_text(k->api, node, "ep_cache_context", &k->artifact, &size);
  if (status != NULL) return status;
  if (lds_easy_open(device, k->artifact, size, &k->net, &error) != LDS_OK) return lds_ort_fail(k->api, ORT_EP_FAIL, "%s", error.text);
  k->inputs = lds_easy_input_count(k->net);
  k->outputs = lds_easy_output_count(k->net);
  k->place = calloc((size_t)k->inputs + k->outputs + 1u, sizeof *k->place);
  if (k->place == NULL) return lds_ort_fail(k->api, ORT_EP_FAIL, "out of memory");
  status = match_ports(k, node, fused, input_ports, k->inputs, k->place);
  return status != NULL ? status : match_ports(k, node, fused, output_ports, k->outputs, k->place + k->inputs);
}

/* --- running ----------------------------------------------------------------------------------------------------------------- */
/* The type and shape of a tensor in ONNX Runtime. rank LDS_RANK + 1: more than an artifact's can have. */
typedef struct shape {
  int type;
  size_t rank;
  int64_t dims[LDS_RANK];
} shape;

static ort_status *shape_of(const kernel *k, const ort_value *value, shape *out) {
  ort_shape_info *info = NULL;
  ort_status *status = ORT(k->api, ORT_GET_TENSOR_TYPE_AND_SHAPE, ort_get_tensor_type_and_shape)(value, &info);
  if (status != NULL) return status;
  status = ORT(k->api, ORT_GET_ELEMENT_TYPE, ort_get_element_type)(info, &out->type);
  if (status == NULL) status = ORT(k->api, ORT_GET_DIMENSION_COUNT, ort_get_dimension_count)(info, &out->rank);
  if (status == NULL && out->rank > LDS_RANK) {
    out->rank = LDS_RANK + 1;
  } else if (status == NULL) {
    status = ORT(k->api, ORT_GET_DIMENSIONS, ort_get_dimensions)(info, out->dims, out->rank);
  }
  ORT(k->api, ORT_RELEASE_SHAPE_INFO, ort_release_shape_info)(info);
  return status;
}

/* Samples of a tensor; 0 when it is not shaped as the artifact's is. */
static uint32_t samples_of(const kernel *k, const shape *found, const lds_tensor *wanted) {
  const int64_t rows = wanted->dims[0] / lds_easy_samples(k->net);
  size_t d;
  if (found->type != element_types[wanted->dtype] || found->rank != wanted->rank || found->rank < 1) return 0;
  for (d = 1; d < found->rank; ++d) {
    if (found->dims[d] != (int64_t)wanted->dims[d]) return 0;
  }
  return found->dims[0] > 0 && found->dims[0] % rows == 0 && found->dims[0] / rows <= UINT32_MAX ? (uint32_t)(found->dims[0] / rows) : 0;
}

static ort_status *mismatch(const kernel *k, const char *what, const lds_tensor *t) {
  return lds_ort_fail(k->api, ORT_INVALID_ARGUMENT, "model '%.100s': %s '%.100s' has another type or shape than it was compiled for",
                      lds_easy_name(k->net), what, t->name);
}

/* The data of input n, and its samples, which must be as many as those of the inputs before. */
static ort_status *read_input(const kernel *k, const ort_kernel_context *context, uint32_t n, void **data, uint32_t *samples) {
  const ort_value *value = NULL;
  lds_tensor t;
  shape found;
  uint32_t count;
  ort_status *status = ORT(k->api, ORT_CONTEXT_GET_INPUT, ort_context_get_input)(context, k->place[n], &value);
  if (status == NULL) status = shape_of(k, value, &found);
  /* ONNX Runtime has one function for both; the data of an input are only read. */
  if (status == NULL) status = ORT(k->api, ORT_GET_TENSOR_MUTABLE_DATA, ort_get_tensor_mutable_data)((ort_value *)(uintptr_t)value, data);
  if (status != NULL) return status;
  (void)lds_easy_input(k->net, n, &t);
  count = samples_of(k, &found, &t);
  if (count == 0 || (n > 0 && count != *samples)) return mismatch(k, "input", &t);
  *samples = count;
  return NULL;
}

static ort_status *write_output(const kernel *k, ort_kernel_context *context, uint32_t n, uint32_t samples, void **data) {
  ort_value *value = NULL;
  lds_tensor t;
  shape made;
  int64_t dims[LDS_RANK];
  ort_status *status;
  uint8_t d;
  (void)lds_easy_output(k->net, n, &t);
  for (d = 0; d < t.rank; ++d) dims[d] = t.dims[d];
  dims[0] = dims[0] / lds_easy_samples(k->net) * samples;
  status = ORT(k->api, ORT_CONTEXT_GET_OUTPUT, ort_context_get_output)(context, k->place[k->inputs + n], dims, t.rank, &value);
  if (status == NULL) status = shape_of(k, value, &made); /* its type is the node's, whatever the artifact gives */
  if (status == NULL && samples_of(k, &made, &t) != samples) status = mismatch(k, "output", &t);
  return status != NULL ? status : ORT(k->api, ORT_GET_TENSOR_MUTABLE_DATA, ort_get_tensor_mutable_data)(value, data);
}

static ort_status *run(const kernel *k, ort_kernel_context *context, void **data) {
  lds_easy_error error;
  ort_status *status = NULL;
  uint32_t samples = 1, n;
  for (n = 0; n < k->inputs && status == NULL; ++n) status = read_input(k, context, n, &data[n], &samples);
  for (n = 0; n < k->outputs && status == NULL; ++n) status = write_output(k, context, n, samples, &data[k->inputs + n]);
  if (status != NULL) return status;
  if (lds_easy_run(k->net, (const void *const *)data, data + k->inputs, samples, &error) == LDS_OK) return NULL;
  return lds_ort_fail(k->api, ORT_EP_FAIL, "%s", error.text);
}

static ort_status *compute(ort_compute_info *self, void *state, ort_kernel_context *context) {
  const kernel *k = (const kernel *)self;
  void **data = calloc((size_t)k->inputs + k->outputs + 1u, sizeof *data);
  ort_status *status = data != NULL ? run(k, context, data) : lds_ort_fail(k->api, ORT_EP_FAIL, "out of memory");
  (void)state;
  free(data);
  return status;
}

static ort_status *create_state(ort_compute_info *self, void *context, void **state) {
  (void)context;
  *state = self;
  return NULL;
}

static void release_state(ort_compute_info *self, void *state) {
  (void)self;
  (void)state;
}

void lds_kernel_release(ort_compute_info *info) {
  kernel *k = (kernel *)info;
  if (k == NULL) return;
  lds_easy_close(k->net);
  free(k->artifact);
  free(k->place);
  free(k);
}

ort_status *lds_kernel_create(const ort_function *api, lds_easy_device *device, const ort_node *node, const ort_node *fused,
                              ort_compute_info **out) {
  kernel *k = calloc(1, sizeof *k);
  ort_status *status;
  *out = NULL;
  if (k == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  k->api = api;
  k->info.version = ORT_VERSION;
  k->info.create_state = create_state;
  k->info.compute = compute;
  k->info.release_state = release_state;
  status = open_kernel(k, device, node, fused);
  if (status == NULL) {
    *out = &k->info;
  } else {
    lds_kernel_release(&k->info);
  }
  return status;
}
