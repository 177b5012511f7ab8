/* The host operators one by one, for a set that links only those of one model; `loadstone export` writes such a set.
 *
 * In:   operands and parameters that lds_row_step_check accepted, and lds_row_step_ready before each run.
 * Out:  the outputs' bytes, as runtime/FORMAT.md says.
 * Next: lds_session_config.operators.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_OPERATORS_H
#define LDS_OPERATORS_H

#include "loadstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void lds_operator(const lds_operand *operands, const int32_t *parameters);

lds_operator lds_copy, lds_fill, lds_pack, lds_unpack, lds_quantize, lds_dequantize, lds_lookup, lds_softmax_int8, lds_softmax_float32,
    lds_argmax;
lds_operator lds_exp_float32, lds_log_float32, lds_sqrt_float32, lds_rsqrt_float32, lds_tanh_float32, lds_sigmoid_float32, lds_erf_float32;
lds_operator lds_add_float32, lds_subtract_float32, lds_multiply_float32, lds_divide_float32, lds_maximum_float32, lds_minimum_float32,
    lds_power_float32;
lds_operator lds_sum_float32, lds_matmul_float32, lds_gather;
lds_operator lds_rms_norm, lds_rotate_places, lds_row_scales, lds_quantize_rows, lds_rescale_rows, lds_keep_rows, lds_attention, lds_gate;

#ifdef __cplusplus
}
#endif

#endif /* LDS_OPERATORS_H */
