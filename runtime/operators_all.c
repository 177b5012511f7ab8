/* The table of all host operators.
 *
 * In:   nothing.
 * Out:  what a session's configuration points to, where a model may have any of them.
 * Next: operators.c, operators_real.c, operators_rows.c and operators_cache.c have them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_operators.h"

const lds_operator_set lds_all_operators = {
    lds_row_step_check,
    {NULL,
     lds_copy,
     lds_fill,
     lds_pack,
     lds_unpack,
     lds_quantize,
     lds_dequantize,
     lds_lookup,
     lds_softmax_int8,
     lds_softmax_float32,
     lds_argmax,
     lds_exp_float32,
     lds_log_float32,
     lds_sqrt_float32,
     lds_rsqrt_float32,
     lds_tanh_float32,
     lds_sigmoid_float32,
     lds_erf_float32,
     lds_add_float32,
     lds_subtract_float32,
     lds_multiply_float32,
     lds_divide_float32,
     lds_maximum_float32,
     lds_minimum_float32,
     lds_power_float32,
     lds_sum_float32,
     lds_matmul_float32,
     lds_gather,
     lds_rms_norm,
     lds_rotate_places,
     lds_row_scales,
     lds_quantize_rows,
     lds_rescale_rows,
     lds_keep_rows,
     lds_attention,
     lds_gate},
    lds_row_step_ready,
};

void lds_session_config_all(lds_session_config *config) { config->operators = &lds_all_operators; }
