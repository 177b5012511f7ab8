# SPDX-License-Identifier: Apache-2.0
"""The options of TFLite's builtin operators: every field of every table of the schema.

In:   an operator's table of options in the file.
Out:  its values by name; FIELDS, the schema's.
Next: tflite_operators.py says which of them each operator reads.

The package tflite drops a field of a newer schema without a word, and gives defaults where the
table is another operator's. Here a field that is not known is an error, and what has no line below
has no field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import tflite
from flatbuffers import number_types

from loadstone.errors import ModelError

__all__ = ["FIELDS", "Options", "defaults", "options_of"]

#: Name -> number, truth value, text or tuple of numbers.
Options: TypeAlias = Mapping[str, Any]

#: Table of options -> its fields in the order of the schema: name, type, and the default where it
#: is not 0 (or empty). A type with an s is a vector; `-` is a field that the schema has withdrawn.
FIELDS: Mapping[str, str] = {
    "Conv2DOptions": (
        "padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8 "
        "dilation_w_factor:int32=1 dilation_h_factor:int32=1 quantized_bias_type:int8"
    ),
    "DepthwiseConv2DOptions": (
        "padding:int8 stride_w:int32 stride_h:int32 depth_multiplier:int32 "
        "fused_activation_function:int8 dilation_w_factor:int32=1 dilation_h_factor:int32=1"
    ),
    "ConcatEmbeddingsOptions": (
        "num_channels:int32 num_columns_per_channel:int32s embedding_dim_per_channel:int32s"
    ),
    "LSHProjectionOptions": "type:int8",
    "Pool2DOptions": (
        "padding:int8 stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32 "
        "fused_activation_function:int8"
    ),
    "SVDFOptions": "rank:int32 fused_activation_function:int8 asymmetric_quantize_inputs:bool",
    "RNNOptions": "fused_activation_function:int8 asymmetric_quantize_inputs:bool",
    "FullyConnectedOptions": (
        "fused_activation_function:int8 weights_format:int8 keep_num_dims:bool "
        "asymmetric_quantize_inputs:bool quantized_bias_type:int8 quant_spec:uint8s"
    ),
    "SoftmaxOptions": "beta:float32",
    "ConcatenationOptions": "axis:int32 fused_activation_function:int8",
    "AddOptions": "fused_activation_function:int8 pot_scale_int16:bool=True",
    "L2NormOptions": "fused_activation_function:int8",
    "LocalResponseNormalizationOptions": "radius:int32 bias:float32 alpha:float32 beta:float32",
    "LSTMOptions": (
        "fused_activation_function:int8 cell_clip:float32 proj_clip:float32 kernel_type:int8 "
        "asymmetric_quantize_inputs:bool"
    ),
    "ResizeBilinearOptions": "- - align_corners:bool half_pixel_centers:bool",
    "CallOptions": "subgraph:uint32",
    "ReshapeOptions": "new_shape:int32s",
    "SkipGramOptions": "ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool",
    "SpaceToDepthOptions": "block_size:int32",
    "EmbeddingLookupSparseOptions": "combiner:int8",
    "MulOptions": "fused_activation_function:int8",
    "GatherOptions": "axis:int32 batch_dims:int32",
    "ReducerOptions": "keep_dims:bool",
    "SubOptions": "fused_activation_function:int8 pot_scale_int16:bool=True",
    "DivOptions": "fused_activation_function:int8",
    "SqueezeOptions": "squeeze_dims:int32s",
    "SequenceRNNOptions": (
        "time_major:bool fused_activation_function:int8 asymmetric_quantize_inputs:bool"
    ),
    "StridedSliceOptions": (
        "begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32 "
        "shrink_axis_mask:int32 offset:bool"
    ),
    "SplitOptions": "num_splits:int32",
    "CastOptions": "in_data_type:int8 out_data_type:int8",
    "ArgMaxOptions": "output_type:int8",
    "TransposeConvOptions": (
        "padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8 "
        "quantized_bias_type:int8"
    ),
    "SparseToDenseOptions": "validate_indices:bool",
    "ShapeOptions": "out_type:int8",
    "ArgMinOptions": "output_type:int8",
    "FakeQuantOptions": "min:float32 max:float32 num_bits:int32 narrow_range:bool",
    "PackOptions": "values_count:int32 axis:int32",
    "OneHotOptions": "axis:int32",
    "UnpackOptions": "num:int32 axis:int32",
    "BidirectionalSequenceLSTMOptions": (
        "fused_activation_function:int8 cell_clip:float32 proj_clip:float32 merge_outputs:bool "
        "time_major:bool=True asymmetric_quantize_inputs:bool"
    ),
    "BidirectionalSequenceRNNOptions": (
        "time_major:bool fused_activation_function:int8 merge_outputs:bool "
        "asymmetric_quantize_inputs:bool"
    ),
    "UnidirectionalSequenceLSTMOptions": (
        "fused_activation_function:int8 cell_clip:float32 proj_clip:float32 time_major:bool "
        "asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool"
    ),
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "LeakyReluOptions": "alpha:float32",
    "MirrorPadOptions": "mode:int8",
    "SplitVOptions": "num_splits:int32",
    "UniqueOptions": "idx_out_type:int8=2",
    "ReverseSequenceOptions": "seq_dim:int32 batch_dim:int32",
    "IfOptions": "then_subgraph_index:int32 else_subgraph_index:int32",
    "WhileOptions": "cond_subgraph_index:int32 body_subgraph_index:int32",
    "DepthToSpaceOptions": "block_size:int32",
    "BatchMatMulOptions": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "CallOnceOptions": "init_subgraph_index:int32",
    "Conv3DOptions": (
        "padding:int8 stride_d:int32 stride_w:int32 stride_h:int32 fused_activation_function:int8 "
        "dilation_d_factor:int32=1 dilation_w_factor:int32=1 dilation_h_factor:int32=1"
    ),
    "HashtableOptions": "table_id:int32 key_dtype:int8 value_dtype:int8",
    "VarHandleOptions": "container:text shared_name:text",
    "RandomOptions": "seed:int64 seed2:int64",
    "BucketizeOptions": "boundaries:float32s",
    "GeluOptions": "approximate:bool",
    "StablehloConcatenateOptions": "dimension:int64",
    "StablehloBroadcastInDimOptions": "broadcast_dimensions:int64s",
    "StablehloSliceOptions": "start_indices:int64s limit_indices:int64s strides:int64s",
    "StablehloConvolutionOptions": (
        "window_strides:int64s padding:int64s lhs_dilation:int64s rhs_dilation:int64s "
        "window_reversal:bools input_batch_dimension:int64 input_feature_dimension:int64 "
        "input_spatial_dimensions:int64s kernel_input_feature_dimension:int64 "
        "kernel_output_feature_dimension:int64 kernel_spatial_dimensions:int64s "
        "output_batch_dimension:int64 output_feature_dimension:int64 "
        "output_spatial_dimensions:int64s feature_group_count:int64 batch_group_count:int64 "
        "precision_config:uint32s"
    ),
    "StablehloCustomCallOptions": (
        "call_target_name:text has_side_effect:bool backend_config:text api_version:int32 "
        "called_computations:int32s custom_attributes:uint8s"
    ),
    "StablehloReduceOptions": "dimensions:int64s body_subgraph_index:int32",
    "StablehloScatterOptions": (
        "indices_are_sorted:bool update_window_dims:int64s inserted_window_dims:int64s "
        "scatter_dims_to_operand_dims:int64s index_vector_dim:int64 unique_indices:bool "
        "update_computation_subgraph_index:int32"
    ),
    "StablehloCompareOptions": "comparison_direction:uint32 compare_type:uint32",
    "StablehloDynamicSliceOptions": "slice_sizes:int64s",
    "StablehloPadOptions": (
        "edge_padding_low:int64s edge_padding_high:int64s interior_padding:int64s"
    ),
    "StablehloIotaOptions": "iota_dimension:int64",
    "StablehloDotGeneralOptions": (
        "lhs_batching_dimensions:int64s rhs_batching_dimensions:int64s "
        "lhs_contracting_dimensions:int64s rhs_contracting_dimensions:int64s "
        "precision_config:uint32s"
    ),
    "StablehloReduceWindowOptions": (
        "window_dimensions:int64s window_strides:int64s base_dilations:int64s "
        "window_dilations:int64s padding:int64s body_subgraph_index:int32"
    ),
    "StablehloSortOptions": "dimension:int64 is_stable:bool comparator_subgraph_index:int32",
    "StablehloWhileOptions": "cond_subgraph_index:int32 body_subgraph_index:int32",
    "StablehloGatherOptions": (
        "offset_dims:int64s collapsed_slice_dims:int64s start_index_map:int64s "
        "index_vector_dim:int64 slice_sizes:int64s indices_are_sorted:bool"
    ),
    "StablehloTransposeOptions": "permutation:int64s",
    "StablehloRngBitGeneratorOptions": "algorithm:int8",
    "ReduceWindowOptions": "reduce_function:int32",
    "StableHLOCompositeOptions": (
        "name:text decomposition_subgraph_index:int32 composite_attributes:uint8s "
        "composite_attributes_format:int8 version:int32"
    ),
    "StablehloCaseOptions": "branch_subgraph_indices:int32s",
}
#: Unions of the schema that an operator's options lie in.
_UNIONS = ("BuiltinOptions", "BuiltinOptions2")
_FIRST_FIELD_BYTES = 4


def defaults(kind: str) -> dict[str, Any]:
    """Every field of a table at its default."""
    return {name: default for name, _, default in _fields(kind) if name != "-"}


def options_of(table: Any, kind: str, *, needed: bool) -> dict[str, Any]:
    """table: the operator's. kind: the table of options that it may carry, "" for none, or must
    where it is needed. Raises ModelError, the end of a sentence."""
    values = defaults(kind) if kind else {}
    found = [
        (name, getattr(table, name)())
        for name in _UNIONS
        if getattr(table, f"{name}Type")() and getattr(table, name)() is not None
    ]
    if needed and not found:
        raise ModelError(f"does not carry {kind}")
    for union, options in found:
        number = getattr(table, f"{union}Type")()
        if not kind or number != getattr(getattr(tflite, union), kind, None):
            raise ModelError(f"carries options of type {number} of {union}, not {kind or 'none'}")
        fields = _fields(kind)
        size_bytes = options.Get(number_types.VOffsetTFlags, _vtable(options))
        for slot in range((size_bytes - _FIRST_FIELD_BYTES) // 2):
            place = options.Offset(_FIRST_FIELD_BYTES + 2 * slot)
            if not place:
                continue
            if slot >= len(fields) or fields[slot][0] == "-":
                if _is_zero(options, place):
                    continue
                raise ModelError(f"has field {slot} of {kind}, which is none of its options")
            name, type_, _ = fields[slot]
            values[name] = _value(options, place, type_)
    return values


def _vtable(options: Any) -> int:
    return int(options.Pos - options.Get(number_types.SOffsetTFlags, options.Pos))


def _is_zero(options: Any, place: int) -> bool:
    """Old files have withdrawn numbers, of 4 bytes, at 0."""
    return int(options.Get(number_types.Int32Flags, options.Pos + place)) == 0


def _fields(kind: str) -> list[tuple[str, str, Any]]:
    """Name, type and default of each."""
    made = list[tuple[str, str, Any]]()
    for word in FIELDS.get(kind, "").split():
        name, _, rest = word.partition(":")
        type_, _, default = rest.partition("=")
        zero: Any = () if type_.endswith("s") else "" if type_ == "text" else 0
        if type_ == "bool":
            zero = default == "True"
        elif default:
            zero = int(default)
        made.append((name, type_, zero))
    return made


def _value(options: Any, place: int, type_: str) -> Any:
    """One field, of a flatbuffers.Table."""
    if type_ == "text":
        return options.String(options.Pos + place).decode("utf-8", "replace")
    flags = getattr(number_types, f"{type_.removesuffix('s').capitalize()}Flags")
    if type_.endswith("s"):
        values = options.GetVectorAsNumpy(flags, place)
        return tuple(np.asarray(values).tolist())
    return options.Get(flags, options.Pos + place)
