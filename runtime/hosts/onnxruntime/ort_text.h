/* Texts for ONNX Runtime, and from it. Private to runtime/hosts/onnxruntime/.
 *
 * In:   ONNX Runtime's table of functions.
 * Out:  error statuses; attributes of nodes.
 * Next: ort_text.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_ORT_TEXT_H
#define LDS_ORT_TEXT_H

#include "ort_api.h"

/* A status with this error message, after "loadstone: ". */
ort_status *lds_ort_fail(const ort_function *api, int code, const char *format, ...);

/* An attribute of a node as text that ends with a zero; the caller frees it. */
ort_status *lds_ort_text(const ort_function *api, const ort_node *node, const char *name, char **out, size_t *size);

#endif /* LDS_ORT_TEXT_H */
