/* What the execution provider uses of ONNX Runtime's C interface, as of version 23 (ONNX Runtime 1.23), which is in no registry.
 *
 * In:   ort_api_base, which ONNX Runtime hands to CreateEpFactories.
 * Out:  functions by their places in its table; the structures that a provider fills, each with all fields that version 23 has.
 * Next: provider.c. ONNX Runtime never moves a function of its table nor a field of these structures, it adds behind them; that it
 *       knows version 23 is checked at load time: get_api(23) gives NULL where it is older.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ORT_API_H
#define LDS_ORT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORT_VERSION = 23 };
enum { ORT_INVALID_ARGUMENT = 2, ORT_EP_FAIL = 11 }; /* OrtErrorCode */
enum { ORT_ATTRIBUTE_STRING = 5 };                   /* OrtOpAttrType */
enum { ORT_HARDWARE_CPU = 0 };                       /* OrtHardwareDeviceType */

/* ONNX Runtime's own types, which are opaque here. */
typedef struct ort_status ort_status;
typedef struct ort_graph ort_graph;
typedef struct ort_node ort_node;
typedef struct ort_value ort_value;
typedef struct ort_value_info ort_value_info;
typedef struct ort_attribute ort_attribute;
typedef struct ort_kernel_context ort_kernel_context;
typedef struct ort_shape_info ort_shape_info;
typedef struct ort_support_info ort_support_info;
typedef struct ort_session_options ort_session_options;
typedef struct ort_hardware_device ort_hardware_device;
typedef struct ort_ep_device ort_ep_device;
typedef struct ort_pairs ort_pairs;
typedef struct ort_logger ort_logger;

/* A function of some other type: called after a cast to what stands behind its name below. */
typedef void (*ort_function)(void);

typedef struct ort_api_base {
  const ort_function *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} ort_api_base;

/* A function of ONNX Runtime's table by its place and type: ORT(api, ORT_CREATE_STATUS, ort_create_status)(code, text). */
#define ORT(table, place, type) ((type)(table)[place])

/* Places in the table. */
enum {
  ORT_CREATE_STATUS = 0,
  ORT_GET_TENSOR_MUTABLE_DATA = 51,
  ORT_GET_ELEMENT_TYPE = 60,
  ORT_GET_DIMENSION_COUNT = 61,
  ORT_GET_DIMENSIONS = 62,
  ORT_GET_TENSOR_TYPE_AND_SHAPE = 65,
  ORT_CONTEXT_GET_INPUT = 90,
  ORT_CONTEXT_GET_OUTPUT = 91,
  ORT_RELEASE_STATUS = 93,
  ORT_RELEASE_SHAPE_INFO = 99,
  ORT_HAS_CONFIG_ENTRY = 237,
  ORT_GET_CONFIG_ENTRY = 238,
  ORT_READ_ATTRIBUTE = 272,
  ORT_GET_VALUE_INFO_NAME = 289,
  ORT_HARDWARE_DEVICE_TYPE = 307,
  ORT_GET_EP_API = 317,
  ORT_GRAPH_GET_NODE_COUNT = 344,
  ORT_GRAPH_GET_NODES = 345,
  ORT_NODE_GET_TYPE = 350,
  ORT_NODE_GET_DOMAIN = 351,
  ORT_NODE_GET_INPUT_COUNT = 353,
  ORT_NODE_GET_INPUTS = 354,
  ORT_NODE_GET_OUTPUT_COUNT = 355,
  ORT_NODE_GET_OUTPUTS = 356,
  ORT_NODE_GET_ATTRIBUTE = 361
};

typedef ort_status *(*ort_create_status)(int code, const char *text);
typedef ort_status *(*ort_get_tensor_mutable_data)(ort_value *value, void **out);
typedef ort_status *(*ort_get_element_type)(const ort_shape_info *info, int *out);
typedef ort_status *(*ort_get_dimension_count)(const ort_shape_info *info, size_t *out);
typedef ort_status *(*ort_get_dimensions)(const ort_shape_info *info, int64_t *dims, size_t count);
typedef ort_status *(*ort_get_tensor_type_and_shape)(const ort_value *value, ort_shape_info **out);
typedef ort_status *(*ort_context_get_input)(const ort_kernel_context *context, size_t index, const ort_value **out);
typedef ort_status *(*ort_context_get_output)(ort_kernel_context *context, size_t index, const int64_t *dims, size_t rank, ort_value **out);
typedef void (*ort_release_status)(ort_status *status);
typedef void (*ort_release_shape_info)(ort_shape_info *info);
typedef ort_status *(*ort_has_config_entry)(const ort_session_options *options, const char *key, int *out);
typedef ort_status *(*ort_get_config_entry)(const ort_session_options *options, const char *key, char *value, size_t *size);
typedef ort_status *(*ort_read_attribute)(const ort_attribute *attribute, int type, void *data, size_t size, size_t *needed);
typedef ort_status *(*ort_get_value_info_name)(const ort_value_info *info, const char **out);
typedef int (*ort_hardware_device_type)(const ort_hardware_device *device);
typedef const ort_function *(*ort_get_ep_api)(void);
typedef ort_status *(*ort_graph_get_node_count)(const ort_graph *graph, size_t *out);
typedef ort_status *(*ort_graph_get_nodes)(const ort_graph *graph, const ort_node **nodes, size_t count);
typedef ort_status *(*ort_node_get_text)(const ort_node *node, const char **out);
typedef ort_status *(*ort_node_get_port_count)(const ort_node *node, size_t *out);
typedef ort_status *(*ort_node_get_ports)(const ort_node *node, const ort_value_info **ports, size_t count);
typedef ort_status *(*ort_node_get_attribute)(const ort_node *node, const char *name, const ort_attribute **out);

/* Places in the table that ORT_GET_EP_API gives. */
enum { ORT_EP_CREATE_DEVICE = 0, ORT_EP_ADD_NODES_TO_FUSE = 2 };

typedef struct ort_fusion_options {
  uint32_t version;
  bool drop_constant_initializers;
} ort_fusion_options;

typedef struct ort_factory ort_factory;
typedef ort_status *(*ort_ep_create_device)(ort_factory *factory, const ort_hardware_device *hardware, const ort_pairs *metadata,
                                            const ort_pairs *options, ort_ep_device **out);
typedef ort_status *(*ort_ep_add_nodes_to_fuse)(ort_support_info *info, const ort_node *const *nodes, size_t count,
                                                const ort_fusion_options *options);

/* --- what a provider fills --------------------------------------------------------------------------------------------------- */
typedef struct ort_compute_info ort_compute_info;
struct ort_compute_info {
  uint32_t version;
  ort_status *(*create_state)(ort_compute_info *self, void *context, void **state);
  ort_status *(*compute)(ort_compute_info *self, void *state, ort_kernel_context *context);
  void (*release_state)(ort_compute_info *self, void *state);
};

typedef struct ort_ep ort_ep;
struct ort_ep {
  uint32_t version;
  const char *(*get_name)(const ort_ep *self);
  ort_status *(*get_capability)(ort_ep *self, const ort_graph *graph, ort_support_info *info);
  ort_status *(*compile)(ort_ep *self, const ort_graph **graphs, const ort_node **fused, size_t count, ort_compute_info **infos,
                         ort_node **context_nodes);
  void (*release_compute_infos)(ort_ep *self, ort_compute_info **infos, size_t count);
  ort_status *(*get_preferred_layout)(ort_ep *self, int *out);
  ort_status *(*should_convert_layout)(ort_ep *self, const char *domain, const char *type, int layout, int *out);
  ort_status *(*set_dynamic_options)(ort_ep *self, const char *const *keys, const char *const *values, size_t count);
  ort_status *(*on_run_start)(ort_ep *self, const void *options);
  ort_status *(*on_run_end)(ort_ep *self, const void *options, bool synchronize);
  ort_status *(*create_allocator)(ort_ep *self, const void *memory, void **out);
  ort_status *(*create_stream)(ort_ep *self, const void *device, void **out);
  const char *(*get_compatibility)(ort_ep *self, const ort_graph *graph);
};

struct ort_factory {
  uint32_t version;
  const char *(*get_name)(const ort_factory *self);
  const char *(*get_vendor)(const ort_factory *self);
  ort_status *(*get_supported_devices)(ort_factory *self, const ort_hardware_device *const *devices, size_t count, ort_ep_device **out,
                                       size_t room, size_t *found);
  ort_status *(*create_ep)(ort_factory *self, const ort_hardware_device *const *devices, const ort_pairs *const *metadata, size_t count,
                           const ort_session_options *options, const ort_logger *logger, ort_ep **out);
  void (*release_ep)(ort_factory *self, ort_ep *ep);
  uint32_t (*get_vendor_id)(const ort_factory *self);
  const char *(*get_version)(const ort_factory *self);
  ort_status *(*validate_compatibility)(ort_factory *self, const ort_hardware_device *const *devices, size_t count, const char *info,
                                        int *out);
  ort_status *(*create_allocator)(ort_factory *self, const void *memory, const ort_pairs *options, void **out);
  void (*release_allocator)(ort_factory *self, void *allocator);
  ort_status *(*create_data_transfer)(ort_factory *self, void **out);
  bool (*is_stream_aware)(const ort_factory *self);
  ort_status *(*create_stream)(ort_factory *self, const void *device, const ort_pairs *options, void **out);
};

#endif /* LDS_ORT_API_H */
