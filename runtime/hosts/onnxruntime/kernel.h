/* One EPContext node of a model. Private to runtime/hosts/onnxruntime/.
 *
 * In:   the node, and the device on which its artifact is opened.
 * Out:  what ONNX Runtime calls to run it.
 * Next: kernel.c; provider.c offers it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_KERNEL_H
#define LDS_KERNEL_H

#include "lds_easy.h"
#include "ort_api.h"

/* Opens the node's artifact on the device. Release with lds_kernel_release. */
ort_status *lds_kernel_create(const ort_function *api, lds_easy_device *device, const ort_node *node, const ort_node *fused,
                              ort_compute_info **out);
void lds_kernel_release(ort_compute_info *info);

#endif /* LDS_KERNEL_H */
