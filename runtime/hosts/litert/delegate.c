/* LiteRT's external delegate: load_delegate("libloadstone_litert.so", {"device": "sim"}).
 *
 * In:   a .tflite file that carries artifacts (`loadstone compile net.tflite --format litert`), and LiteRT's interpreter for it.
 * Out:  one operator of the interpreter's for each artifact; the other operators stay LiteRT's.
 * Next: lds_easy.h runs the artifacts. docs/litert.md.
 *
 * An artifact is taken when the operators that it names are those that it was made from, by their hash (subgraph.h). All of a delegate's
 * networks share one device. It links nothing of LiteRT: the interpreter hands in every function.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "lds_easy.h"
#include "litert_api.h"
#include "subgraph.h"

/* One artifact in one interpreter. */
typedef struct kernel {
  lds_easy *net;
  lds_bundle_entry entry;
} kernel;

typedef struct delegate {
  litert_delegate base; /* first: LiteRT's pointer is ours */
  lds_easy_device *device;
  kernel *next; /* on its way from prepare to init */
} delegate;

static const char metadata_name[] = "loadstone";

/* --- one operator of the interpreter's --------------------------------------------------------------------------------------- */
static void kernel_free(litert_context *context, void *buffer) {
  kernel *k = buffer;
  (void)context;
  if (k == NULL) return;
  lds_easy_close(k->net);
  free(k);
}

static void *kernel_init(litert_context *context, const char *buffer, size_t length) {
  const litert_delegate_params *params = (const void *)buffer;
  delegate *d = (delegate *)params->delegate;
  kernel *k = d->next;
  (void)length;
  d->next = NULL;
  if (k == NULL) context->report_error(context, "loadstone: LiteRT split the operators of one artifact into several partitions");
  return k;
}

/* Tensor n of the artifact: inputs, then outputs. */
static litert_tensor *tensor_of(litert_context *context, const kernel *k, uint32_t n) {
  const int32_t index = lds_bundle_word(&k->entry, k->entry.nodes + n);
  return index >= 0 && (size_t)index < context->tensors_size ? &context->tensors[index] : NULL;
}

static uint32_t samples_of(litert_context *context, const kernel *k) {
  const uint32_t count = k->entry.inputs + k->entry.outputs;
  uint32_t samples = 0, n;
  for (n = 0; n < count; ++n) {
    const litert_tensor *t = tensor_of(context, k, n);
    const size_t bytes = n < k->entry.inputs ? lds_easy_input_bytes(k->net, n) : lds_easy_output_bytes(k->net, n - k->entry.inputs);
    if (t == NULL || bytes == 0 || t->bytes % bytes != 0 || t->bytes / bytes > UINT32_MAX) return 0;
    if (n > 0 && t->bytes / bytes != samples) return 0;
    samples = (uint32_t)(t->bytes / bytes);
  }
  return samples;
}

static int is_among(const litert_ints *some, int32_t index) {
  int n;
  for (n = 0; n < some->size; ++n) {
    if (some->data[n] == index) return 1;
  }
  return 0;
}

/* Whether the artifact reads and writes what the node does that it stands for: a file could else say that it writes any tensor, also
 * one in memory that nobody may write. */
static int has_ports_of(const kernel *k, const litert_node *node) {
  uint32_t n;
  for (n = 0; n < k->entry.inputs + k->entry.outputs; ++n) {
    const int32_t index = lds_bundle_word(&k->entry, k->entry.nodes + n);
    if (!is_among(n < k->entry.inputs ? node->inputs : node->outputs, index)) return 0;
  }
  return 1;
}

static litert_status kernel_prepare(litert_context *context, litert_node *node) {
  const kernel *k = node->user_data;
  if (k == NULL) return LITERT_ERROR;
  if (!has_ports_of(k, node)) {
    context->report_error(context, "loadstone: model '%s' does not have the inputs and outputs of the operators that it replaces",
                          lds_easy_name(k->net));
    return LITERT_ERROR;
  }
  if (samples_of(context, k) != 0) return LITERT_OK;
  context->report_error(context, "loadstone: model '%s' was compiled for tensors of other shapes", lds_easy_name(k->net));
  return LITERT_ERROR;
}

static litert_status kernel_invoke(litert_context *context, litert_node *node) {
  const kernel *k = node->user_data;
  const uint32_t count = k->entry.inputs + k->entry.outputs;
  void **data = malloc((count + 1u) * sizeof *data);
  lds_easy_error error;
  uint32_t n;
  int status;
  if (data == NULL) return LITERT_ERROR;
  for (n = 0; n < count; ++n) data[n] = tensor_of(context, k, n)->data;
  status = lds_easy_run(k->net, (const void *const *)data, data + k->entry.inputs, samples_of(context, k), &error);
  free(data);
  if (status == LDS_OK) return LITERT_OK;
  context->report_error(context, "loadstone: %s", error.text);
  return LITERT_ERROR;
}

/* --- which operators --------------------------------------------------------------------------------------------------------- */
/* Whether the entry's operators are there and are those that its artifact was made from. */
static int matches(litert_context *context, const lds_bundle_entry *entry) {
  lds_subgraph graph;
  litert_ints *plan = NULL;
  uint32_t n;
  int known = 1;
  if (context->get_execution_plan(context, &plan) != LITERT_OK) return 0;
  for (n = 0; n < entry->nodes; ++n) {
    if (!is_among(plan, lds_bundle_word(entry, n))) return 0;
  }
  if (!lds_subgraph_begin(&graph, context)) return 0;
  for (n = 0; n < entry->nodes && known; ++n) known = lds_subgraph_add(&graph, lds_bundle_word(entry, n));
  return lds_subgraph_end(&graph) == entry->hash && known;
}

static litert_ints *nodes_of(const lds_bundle_entry *entry) {
  litert_ints *nodes = malloc(sizeof *nodes + entry->nodes * sizeof nodes->data[0]);
  uint32_t n;
  if (nodes == NULL) return NULL;
  nodes->size = (int)entry->nodes;
  for (n = 0; n < entry->nodes; ++n) nodes->data[n] = lds_bundle_word(entry, n);
  return nodes;
}

static kernel *kernel_of(litert_context *context, const delegate *d, const lds_bundle_entry *entry) {
  kernel *k = calloc(1, sizeof *k);
  lds_easy_error error;
  if (k == NULL) return NULL;
  k->entry = *entry;
  if (lds_easy_open(d->device, entry->artifact, entry->artifact_bytes, &k->net, &error) != LDS_OK) {
    context->report_error(context, "loadstone: %s", error.text);
  } else if (lds_easy_input_count(k->net) != entry->inputs || lds_easy_output_count(k->net) != entry->outputs) {
    context->report_error(context, "loadstone: model '%s' does not have the inputs and outputs that the file states",
                          lds_easy_name(k->net));
  } else {
    return k;
  }
  kernel_free(context, k);
  return NULL;
}

static litert_status take(litert_context *context, delegate *d, const lds_bundle_entry *entry) {
  litert_registration registration = {0};
  litert_ints *nodes;
  litert_status status;
  if (!matches(context, entry)) {
    context->report_error(context,
                          "loadstone: operators %d to %d differ from those that their artifact was compiled from: compile the model again "
                          "with `loadstone compile --format litert`",
                          (int)lds_bundle_word(entry, 0), (int)lds_bundle_word(entry, entry->nodes - 1u));
    return LITERT_ERROR;
  }
  d->next = kernel_of(context, d, entry);
  nodes = d->next != NULL ? nodes_of(entry) : NULL;
  if (nodes == NULL) return LITERT_ERROR;
  registration.init = kernel_init;
  registration.free = kernel_free;
  registration.prepare = kernel_prepare;
  registration.invoke = kernel_invoke;
  registration.custom_name = "LoadstoneDelegate";
  registration.version = 1;
  status = context->replace_nodes(context, registration, nodes, &d->base);
  free(nodes);
  kernel_free(context, d->next); /* it was not used */
  d->next = NULL;
  return status;
}

static litert_status delegate_prepare(litert_context *context, litert_delegate *base) {
  delegate *d = (delegate *)base;
  const char *data = NULL, *problem;
  size_t size_bytes = 0;
  lds_bundle bundle;
  lds_bundle_entry entry;
  uint32_t k;
  if (context->get_model_metadata == NULL || context->get_model_metadata(context, metadata_name, &data, &size_bytes) != LITERT_OK ||
      data == NULL) {
    context->report_error(context, "loadstone: the model carries no artifacts: compile it with `loadstone compile --format litert`");
    return LITERT_ERROR;
  }
  problem = lds_bundle_open(&bundle, data, size_bytes);
  if (problem != NULL) {
    context->report_error(context, "loadstone: the model's artifacts: %s", problem);
    return LITERT_ERROR;
  }
  for (k = 0; k < bundle.count; ++k) {
    lds_bundle_read(&bundle, k, &entry);
    if (take(context, d, &entry) != LITERT_OK) return LITERT_ERROR;
  }
  return LITERT_OK;
}

/* --- what load_delegate finds ------------------------------------------------------------------------------------------------ */
LDS_EXPORT litert_delegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                                          void (*report)(const char *));
LDS_EXPORT void tflite_plugin_destroy_delegate(litert_delegate *base);

static litert_delegate *refused(delegate *d, void (*report)(const char *), const char *text) {
  char line[LDS_EASY_TEXT_BYTES + 16];
  (void)snprintf(line, sizeof line, "loadstone: %s", text);
  if (report != NULL) report(line);
  free(d);
  return NULL;
}

litert_delegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                               void (*report)(const char *)) {
  delegate *d = calloc(1, sizeof *d);
  const char *device = "sim";
  lds_easy_error error;
  size_t k;
  if (d == NULL) return refused(d, report, "out of memory");
  for (k = 0; k < count; ++k) {
    if (strcmp(keys[k], "device") != 0) {
      (void)snprintf(error.text, sizeof error.text, "option '%.100s' is unknown: the delegate's only one is 'device'", keys[k]);
      return refused(d, report, error.text);
    }
    device = values[k];
  }
  if (lds_easy_device_open(device, &d->device, &error) != LDS_OK) return refused(d, report, error.text);
  d->base.data = d;
  d->base.prepare = delegate_prepare;
  return &d->base;
}

void tflite_plugin_destroy_delegate(litert_delegate *base) {
  delegate *d = (delegate *)base;
  if (d == NULL) return;
  lds_easy_device_close(d->device);
  free(d);
}
