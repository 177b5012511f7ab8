/* The parts of the execution provider. Private to runtime/hosts/onnxruntime/.
 *
 * In:   ONNX Runtime's tables.
 * Out:  calls of its functions by name; one artifact as what ONNX Runtime computes with.
 * Next: provider.c is what ONNX Runtime loads, kernel.c runs one node.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_PROVIDER_H
#define LDS_PROVIDER_H

#include "lds_easy.h"
#include "ort_api.h"

/* A function of ONNX Runtime's table by its place and type: ORT(api, ORT_CREATE_STATUS, ort_create_status)(code, text). */
#define ORT(table, place, type) ((type)(table)[place])

/* What went wrong, with "loadstone: " before it. */
ort_status *lds_ort_fail(const ort_function *api, int code, const char *format, ...);

/* An attribute of a node as text, ended by a zero: to free. */
ort_status *lds_ort_text(const ort_function *api, const ort_node *node, const char *name, char **out, size_t *size);

/* One EPContext node: opens its artifact on the device. Release with lds_kernel_release. */
ort_status *lds_kernel_create(const ort_function *api, lds_easy_device *device, const ort_node *node, const ort_node *fused,
                              ort_compute_info **out);
void lds_kernel_release(ort_compute_info *info);

#endif /* LDS_PROVIDER_H */
