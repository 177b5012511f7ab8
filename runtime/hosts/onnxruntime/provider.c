/* ONNX Runtime's plug-in execution provider: register_execution_provider_library("Loadstone", "libloadstone_onnxruntime.so").
 *
 * In:   models whose EPContext nodes carry artifacts (`loadstone compile net.onnx --format onnx`); the provider's option `device`.
 * Out:  CreateEpFactories and ReleaseEpFactory, which ONNX Runtime looks up.
 * Next: kernel.c runs one node. docs/onnxruntime.md.
 *
 * It takes only EPContext nodes that name it as their source: operators that no accelerator takes are ordinary nodes of the model, for
 * ONNX Runtime's own kernels. ONNX Runtime has no device type for VTA, so the provider registers for the CPU's hardware device.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "ort_text.h"

/* Names that ONNX Runtime looks up: its own spelling. */
LDS_EXPORT ort_status *CreateEpFactories(const char *registered, const ort_api_base *base, const ort_logger *logger,
                                         ort_factory **factories, size_t room, size_t *count);
LDS_EXPORT ort_status *ReleaseEpFactory(ort_factory *factory);

static const char provider_name[] = "LoadstoneExecutionProvider";
static const char device_option[] = "ep.loadstoneexecutionprovider.device"; /* where ONNX Runtime puts the option `device` */

typedef struct factory {
  ort_factory base; /* first: ONNX Runtime's pointer is ours */
  const ort_function *api, *ep_api;
} factory;

typedef struct provider {
  ort_ep base; /* first */
  const ort_function *api, *ep_api;
  lds_easy_device *device;
} provider;

/* --- nodes ------------------------------------------------------------------------------------------------------------------- */
static ort_status *is_ours(const ort_function *api, const ort_node *node, int *ours) {
  const char *type = NULL, *domain = NULL;
  char *source = NULL;
  size_t size = 0;
  ort_status *status = ORT(api, ORT_NODE_GET_TYPE, ort_node_get_text)(node, &type);
  *ours = 0;
  if (status == NULL) status = ORT(api, ORT_NODE_GET_DOMAIN, ort_node_get_text)(node, &domain);
  if (status != NULL || strcmp(type, "EPContext") != 0 || strcmp(domain, "com.microsoft") != 0) return status;
  status = lds_ort_text(api, node, "source", &source, &size);
  if (status != NULL) { /* an EPContext node of another provider, without the attribute */
    ORT(api, ORT_RELEASE_STATUS, ort_release_status)(status);
  } else {
    *ours = strcmp(source, provider_name) == 0;
  }
  free(source);
  return NULL;
}

/* The nodes of a graph; the caller frees them. */
static ort_status *nodes_of(const ort_function *api, const ort_graph *graph, const ort_node ***nodes, size_t *count) {
  ort_status *status = ORT(api, ORT_GRAPH_GET_NODE_COUNT, ort_graph_get_node_count)(graph, count);
  *nodes = NULL;
  if (status != NULL) return status;
  *nodes = calloc(*count + 1u, sizeof **nodes);
  if (*nodes == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  return ORT(api, ORT_GRAPH_GET_NODES, ort_graph_get_nodes)(graph, *nodes, *count);
}

/* --- a provider of one session ----------------------------------------------------------------------------------------------- */
static const char *ep_name(const ort_ep *self) {
  (void)self;
  return provider_name;
}

static ort_status *get_capability(ort_ep *self, const ort_graph *graph, ort_support_info *info) {
  const provider *p = (const provider *)self;
  const ort_node **nodes = NULL;
  size_t count = 0, k;
  ort_status *status = nodes_of(p->api, graph, &nodes, &count);
  for (k = 0; k < count && status == NULL; ++k) {
    ort_fusion_options options = {ORT_VERSION, true};
    int ours = 0;
    status = is_ours(p->api, nodes[k], &ours);
    if (status == NULL && ours) status = ORT(p->ep_api, ORT_EP_ADD_NODES_TO_FUSE, ort_ep_add_nodes_to_fuse)(info, &nodes[k], 1, &options);
  }
  free(nodes);
  return status;
}

static ort_status *compile_one(const provider *p, const ort_graph *graph, const ort_node *fused, ort_compute_info **out) {
  const ort_node **nodes = NULL;
  size_t count = 0;
  ort_status *status = nodes_of(p->api, graph, &nodes, &count);
  if (status == NULL && count != 1) status = lds_ort_fail(p->api, ORT_EP_FAIL, "%lu nodes where one was offered", (unsigned long)count);
  if (status == NULL) status = lds_kernel_create(p->api, p->device, nodes[0], fused, out);
  free(nodes);
  return status;
}

static ort_status *compile(ort_ep *self, const ort_graph **graphs, const ort_node **fused, size_t count, ort_compute_info **infos,
                           ort_node **context_nodes) {
  const provider *p = (const provider *)self;
  ort_status *status = NULL;
  size_t k;
  (void)context_nodes; /* they are in the model already */
  for (k = 0; k < count; ++k) infos[k] = NULL;
  for (k = 0; k < count && status == NULL; ++k) status = compile_one(p, graphs[k], fused[k], &infos[k]);
  if (status != NULL) { /* ONNX Runtime does not release the others */
    for (k = 0; k < count; ++k) {
      lds_kernel_release(infos[k]);
      infos[k] = NULL;
    }
  }
  return status;
}

static void release_compute_infos(ort_ep *self, ort_compute_info **infos, size_t count) {
  size_t k;
  (void)self;
  for (k = 0; k < count; ++k) lds_kernel_release(infos[k]);
}

/* --- the factory ------------------------------------------------------------------------------------------------------------- */
static const char *factory_name(const ort_factory *self) {
  (void)self;
  return provider_name;
}

static const char *factory_vendor(const ort_factory *self) {
  (void)self;
  return "Loadstone";
}

static uint32_t factory_vendor_id(const ort_factory *self) {
  (void)self;
  return 0;
}

static const char *factory_version(const ort_factory *self) {
  (void)self;
  return LDS_VERSION;
}

static ort_status *get_supported_devices(ort_factory *self, const ort_hardware_device *const *devices, size_t count, ort_ep_device **out,
                                         size_t room, size_t *found) {
  const factory *f = (const factory *)self;
  ort_status *status = NULL;
  size_t k;
  *found = 0;
  for (k = 0; k < count && *found < room && status == NULL; ++k) {
    if (ORT(f->api, ORT_HARDWARE_DEVICE_TYPE, ort_hardware_device_type)(devices[k]) != ORT_HARDWARE_CPU) continue;
    status = ORT(f->ep_api, ORT_EP_CREATE_DEVICE, ort_ep_create_device)(self, devices[k], NULL, NULL, &out[*found]);
    if (status == NULL) ++*found;
  }
  return status;
}

/* The option `device`, which the caller frees; NULL where it is not given. */
static ort_status *device_name(const ort_function *api, const ort_session_options *options, char **out) {
  int has = 0;
  size_t size = 0;
  ort_status *status = ORT(api, ORT_HAS_CONFIG_ENTRY, ort_has_config_entry)(options, device_option, &has);
  *out = NULL;
  if (status != NULL || has == 0) return status;
  status = ORT(api, ORT_GET_CONFIG_ENTRY, ort_get_config_entry)(options, device_option, NULL, &size);
  if (status != NULL) return status;
  *out = calloc(size + 1u, 1);
  if (*out == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  return ORT(api, ORT_GET_CONFIG_ENTRY, ort_get_config_entry)(options, device_option, *out, &size);
}

static void release_ep(ort_factory *self, ort_ep *ep) {
  provider *p = (provider *)ep;
  (void)self;
  if (p == NULL) return;
  lds_easy_device_close(p->device);
  free(p);
}

static ort_status *create_ep(ort_factory *self, const ort_hardware_device *const *devices, const ort_pairs *const *metadata, size_t count,
                             const ort_session_options *options, const ort_logger *logger, ort_ep **out) {
  const factory *f = (const factory *)self;
  provider *p = calloc(1, sizeof *p);
  char *name = NULL;
  lds_easy_error error;
  ort_status *status;
  (void)devices;
  (void)metadata;
  (void)count;
  (void)logger;
  *out = NULL;
  if (p == NULL) return lds_ort_fail(f->api, ORT_EP_FAIL, "out of memory");
  p->api = f->api;
  p->ep_api = f->ep_api;
  p->base.version = ORT_VERSION;
  p->base.get_name = ep_name;
  p->base.get_capability = get_capability;
  p->base.compile = compile;
  p->base.release_compute_infos = release_compute_infos;
  status = device_name(f->api, options, &name);
  if (status == NULL && lds_easy_device_open(name != NULL ? name : "sim", &p->device, &error) != LDS_OK) {
    status = lds_ort_fail(f->api, ORT_INVALID_ARGUMENT, "%s", error.text);
  }
  free(name);
  if (status == NULL) {
    *out = &p->base;
  } else {
    release_ep(self, &p->base);
  }
  return status;
}

static ort_status *create_allocator(ort_factory *self, const void *memory, const ort_pairs *options, void **out) {
  (void)self;
  (void)memory;
  (void)options;
  *out = NULL; /* ONNX Runtime's own memory */
  return NULL;
}

static void release_allocator(ort_factory *self, void *allocator) {
  (void)self;
  (void)allocator;
}

static ort_status *create_data_transfer(ort_factory *self, void **out) {
  (void)self;
  *out = NULL;
  return NULL;
}

static bool is_stream_aware(const ort_factory *self) {
  (void)self;
  return false;
}

ort_status *CreateEpFactories(const char *registered, const ort_api_base *base, const ort_logger *logger, ort_factory **factories,
                              size_t room, size_t *count) {
  const ort_function *api = base->get_api(ORT_VERSION), *oldest = base->get_api(1);
  factory *f;
  (void)registered;
  (void)logger;
  *count = 0;
  if (api == NULL) {
    return oldest == NULL
               ? NULL
               : lds_ort_fail(oldest, ORT_EP_FAIL, "ONNX Runtime %s has no plug-in providers: use 1.23 or newer", base->get_version());
  }
  if (room < 1) return lds_ort_fail(api, ORT_INVALID_ARGUMENT, "there is no room for a factory");
  f = calloc(1, sizeof *f);
  if (f == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  f->api = api;
  f->ep_api = ORT(api, ORT_GET_EP_API, ort_get_ep_api)();
  f->base.version = ORT_VERSION;
  f->base.get_name = factory_name;
  f->base.get_vendor = factory_vendor;
  f->base.get_vendor_id = factory_vendor_id;
  f->base.get_version = factory_version;
  f->base.get_supported_devices = get_supported_devices;
  f->base.create_ep = create_ep;
  f->base.release_ep = release_ep;
  f->base.create_allocator = create_allocator;
  f->base.release_allocator = release_allocator;
  f->base.create_data_transfer = create_data_transfer;
  f->base.is_stream_aware = is_stream_aware;
  factories[0] = &f->base;
  *count = 1;
  return NULL;
}

ort_status *ReleaseEpFactory(ort_factory *self) {
  free(self);
  return NULL;
}
