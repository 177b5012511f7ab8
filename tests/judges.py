# SPDX-License-Identifier: Apache-2.0
"""What says of a program, or of a plan, whether it is right: each file with the tests that judge
it.

In:   nothing.
Out:  JUDGES, FUNCTIONS, SAMPLED.
Next: mutants.py changes each at one place after the other, and asks its tests.
"""

from __future__ import annotations

__all__ = ["FUNCTIONS", "JUDGES", "SAMPLED"]

_VTA, _TESTS = "python/loadstone/vta", "tests/vta"
_PROVE = "python/loadstone/prove"
_OF_VALIDATORS = [
    f"{_TESTS}/validator/test_validate_tokens.py",
    f"{_TESTS}/validator/test_validate_limits.py",
    f"{_TESTS}/validator/test_validate.py",
]
_OF_TABLES = [
    "tests/artifact/test_program_step.py",
    "tests/isa/test_program_check.py",
    "tests/isa/test_registers.py",
    f"{_TESTS}/device/test_instruction_table.py",
]
#: Judge -> the files of its tests.
JUDGES = {
    f"{_VTA}/kernels/verify.py": [f"{_TESTS}/kernels/test_verify.py"],
    f"{_VTA}/passes/store_requantize/store_requantize.py": [
        f"{_TESTS}/passes/store_requantize/test_store_requantize.py",
    ],
    f"{_VTA}/passes/store_requantize/verify.py": [
        f"{_TESTS}/passes/store_requantize/test_verify.py",
        f"{_TESTS}/passes/store_requantize/test_store_requantize.py",
    ],
    f"{_VTA}/passes/store_inp/store_inp.py": [
        f"{_TESTS}/passes/store_inp/test_store_inp.py",
    ],
    f"{_VTA}/passes/store_inp/verify.py": [
        f"{_TESTS}/passes/store_inp/test_verify.py",
        f"{_TESTS}/passes/store_inp/test_store_inp.py",
    ],
    f"{_VTA}/passes/weave.py": [
        f"{_TESTS}/passes/test_weave.py",
    ],
    f"{_VTA}/passes/synchronize/hazards.py": [
        f"{_TESTS}/passes/synchronize/test_synchronize.py",
    ],
    f"{_VTA}/passes/synchronize/synchronize.py": [
        f"{_TESTS}/passes/synchronize/test_synchronize.py",
    ],
    f"{_VTA}/passes/allocate/allocate.py": [f"{_TESTS}/passes/allocate/test_allocate.py"],
    f"{_VTA}/passes/allocate/verify.py": [f"{_TESTS}/passes/allocate/test_allocate.py"],
    f"{_VTA}/passes/encode/encode.py": [f"{_TESTS}/passes/encode/test_encode.py"],
    f"{_VTA}/passes/encode/verify.py": [f"{_TESTS}/passes/encode/test_encode.py"],
    "python/loadstone/isa/token_proof.py": [
        "tests/isa/test_token_proof.py",
        f"{_TESTS}/passes/synchronize/test_synchronize.py",
    ],
    "python/loadstone/isa/program_tokens.py": ["tests/isa/test_program_tokens.py"],
    "python/loadstone/isa/codec.py": ["tests/isa/test_codec.py", "tests/isa/test_registers.py"],
    "python/loadstone/isa/hazards.py": ["tests/isa/test_hazards.py"],
    "python/loadstone/isa/residency.py": ["tests/isa/test_residency.py"],
    "python/loadstone/isa/verify_rows.py": [
        "tests/isa/test_verify_rows.py",
        "tests/isa/test_verify_rows_by_hand.py",
        "tests/isa/test_register_tiles.py",
    ],
    "python/loadstone/isa/follow.py": ["tests/isa/test_follow.py", "tests/isa/test_registers.py"],
    "python/loadstone/isa/program_check.py": ["tests/isa/test_program_check.py"],
    "python/loadstone/backend/rounding_bound.py": ["tests/backend/test_rounding_bound.py"],
    "python/loadstone/graph/accumulators.py": ["tests/graph/test_accumulators.py"],
    f"{_VTA}/integers/proof.py": [
        f"{_TESTS}/integers/test_proof_limits.py",
        f"{_TESTS}/integers/test_proof_rules.py",
        f"{_TESTS}/integers/test_proof.py",
    ],
    f"{_VTA}/meaning/reference.py": [
        f"{_TESTS}/meaning/test_limits.py",
        f"{_TESTS}/meaning/test_reference.py",
        f"{_TESTS}/meaning/test_reference_moves.py",
        f"{_TESTS}/meaning/test_reference_limits.py",
        f"{_TESTS}/meaning/test_reference_floats.py",
    ],
    f"{_VTA}/meaning/step_runs.py": [f"{_TESTS}/meaning/test_step_runs.py"],
    f"{_VTA}/meaning/window_taps.py": [
        f"{_TESTS}/meaning/test_window_taps.py",
        f"{_TESTS}/meaning/test_reference.py",
    ],
    f"{_VTA}/meaning/lane_operations.py": [
        f"{_TESTS}/meaning/test_lane_operations.py",
        f"{_TESTS}/meaning/test_reference.py",
        f"{_TESTS}/meaning/test_reference_floats.py",
    ],
    f"{_PROVE}/alu_lanes.py": ["tests/prove/test_alu_lanes.py"],
    f"{_PROVE}/requantized_lanes.py": ["tests/prove/test_requantized_lanes.py"],
    f"{_VTA}/region/phases.py": [f"{_TESTS}/region/test_phases.py"],
    f"{_VTA}/region/verify_pieces.py": [f"{_TESTS}/region/test_verify_pieces.py"],
    f"{_VTA}/integers/joined.py": [f"{_TESTS}/integers/test_joined.py"],
    "python/loadstone/analysis/bounds.py": ["tests/analysis/test_bounds_by_hand.py"],
    "python/loadstone/analysis/response.py": ["tests/analysis/test_response.py"],
    f"{_PROVE}/tokens.py": ["tests/prove/test_tokens.py"],
    f"{_PROVE}/steps.py": ["tests/prove/test_steps.py", "tests/prove/test_machine_products.py"],
    f"{_PROVE}/pieces.py": ["tests/prove/test_pieces.py", "tests/prove/test_rising.py"],
    f"{_PROVE}/near.py": ["tests/prove/test_near.py"],
    f"{_PROVE}/products.py": ["tests/prove/test_products_by_hand.py"],
    f"{_PROVE}/softmax.py": ["tests/prove/test_softmax.py"],
    f"{_PROVE}/host_operators.py": ["tests/prove/test_host_operators_by_hand.py"],
    f"{_PROVE}/windows.py": ["tests/prove/test_windows.py"],
    f"{_PROVE}/operators/weighted.py": ["tests/prove/test_weighted.py"],
    f"{_PROVE}/requantize.py": ["tests/prove/test_requantize.py"],
    f"{_PROVE}/rows.py": ["tests/prove/test_rows.py"],
    f"{_PROVE}/operators/ends.py": ["tests/prove/test_rows.py"],
    f"{_PROVE}/proof.py": ["tests/prove/test_proof_by_hand.py", "tests/prove/test_rows.py"],
    f"{_PROVE}/verdict.py": ["tests/prove/test_proof_by_hand.py"],
    f"{_PROVE}/certificate.py": ["tests/prove/test_certificate.py"],
    f"{_PROVE}/fingerprints.py": ["tests/prove/test_fingerprints.py"],
    f"{_PROVE}/values.py": ["tests/prove/test_values.py", "tests/prove/test_values_stated.py"],
    f"{_PROVE}/equality.py": ["tests/prove/test_equality.py"],
    f"{_PROVE}/machine.py": [
        f"tests/prove/test_{name}.py"
        for name in (
            *("order_by_hand", "machine_products", "machine"),
            *("machine_moves", "machine_limits", "digits"),
        )
    ],
    f"{_PROVE}/memory.py": [
        f"tests/prove/test_{name}.py"
        for name in ("memory", "machine", "machine_moves", "machine_limits")
    ],
    f"{_PROVE}/functions.py": ["tests/prove/test_functions.py"],
    f"{_PROVE}/lanes.py": [f"tests/prove/test_{name}.py" for name in ("lanes", "maxima", "digits")],
    f"{_PROVE}/maxima.py": ["tests/prove/test_maxima.py"],
    f"{_PROVE}/tables.py": ["tests/prove/test_tables.py"],
    f"{_PROVE}/terms.py": ["tests/prove/test_terms.py"],
    f"{_PROVE}/runs.py": ["tests/prove/test_runs.py"],
    f"{_PROVE}/host_steps.py": ["tests/prove/test_host_steps.py"],
    **{
        f"{_PROVE}/operators/{name}.py": ["tests/prove/test_operators.py"]
        for name in ("elements", "elementwise", "movement", "pooling", "products", "resizing")
    },
    **{
        f"{_PROVE}/tflite/{name}.py": [
            f"tests/prove/test_read_tflite{part}.py" for part in ("_limits", "")
        ]
        for name in ("file", "graph", "levels", "weighted")
    },
    f"{_PROVE}/tflite/operators.py": [
        f"tests/prove/test_{name}.py"
        for name in ("tflite_operators", "read_tflite_limits", "read_tflite")
    ],
    f"{_PROVE}/tflite/geometry.py": [
        "tests/prove/test_tflite_geometry.py",
        "tests/prove/test_read_tflite.py",
    ],
    "python/loadstone/ir_pass/verify_dma_copy.py": [
        "tests/ir_pass/test_verify_dma_copy.py",
        "tests/ir_pass/test_verify_dma_copy_rules.py",
    ],
    "python/loadstone/selection/unify.py": [
        "tests/selection/test_unify.py",
        "tests/selection/test_unify_by_hand.py",
    ],
    "python/loadstone/selection/verify_match.py": [
        "tests/selection/test_verify_match.py",
        "tests/selection/test_verify_match_by_hand.py",
    ],
    "python/loadstone/quantization/verify.py": ["tests/quantization/test_verify.py"],
    "python/loadstone/relax/interface.py": ["tests/relax/test_interface.py"],
    "python/loadstone/partition/segments.py": ["tests/partition/test_segments.py"],
    f"{_VTA}/region/fold_pixels.py": [f"{_TESTS}/region/test_fold_pixels.py"],
    "python/loadstone/artifact/memory_layout.py": ["tests/artifact/test_memory_layout.py"],
    f"{_VTA}/passes/skip_pads/skip_pads.py": [f"{_TESTS}/passes/skip_pads/test_skip_pads.py"],
    f"{_VTA}/passes/prefetch.py": [f"{_TESTS}/passes/test_prefetch.py"],
    "python/loadstone/backend/program.py": ["tests/backend/test_program.py"],
    f"{_TESTS}/stream/meaning.py": [f"{_TESTS}/stream/test_meaning.py"],
    f"{_TESTS}/validator/validate.py": _OF_VALIDATORS,
    "runtime/validate.c": _OF_VALIDATORS,
    "runtime/program.c": _OF_TABLES,
    "runtime/reach.c": _OF_TABLES,
    "runtime/isolated.c": [
        f"{_TESTS}/validator/test_isolated{part}.py" for part in ("_limits", "_models", "", "_rule")
    ],
}
#: Of a file that holds more than a judge: the functions that are one.
FUNCTIONS = {
    "python/loadstone/partition/segments.py": {"verify_segments", "_verify_ends"},
    f"{_VTA}/integers/joined.py": {"prove_blocks"},
    f"{_VTA}/region/fold_pixels.py": {"verify_columns", "_verify_folded", "_is_folding"},
    "python/loadstone/artifact/memory_layout.py": {"verify_memory", "_verify_sharing"},
    f"{_VTA}/passes/skip_pads/skip_pads.py": {
        "verify",
        "_steps",
        "_different_steps",
        "_same_tiles",
        "_zeros",
    },
    f"{_VTA}/passes/prefetch.py": {
        "verify",
        "_stored",
        "_beside",
        "_is_weight_load",
        "_others",
        "_weight_loads",
        "_same_objects",
        "_by_tile",
    },
    f"{_VTA}/passes/allocate/allocate.py": {"verify"},
    f"{_VTA}/passes/store_requantize/store_requantize.py": {"verify"},
    f"{_VTA}/passes/store_inp/store_inp.py": {"verify"},
    f"{_VTA}/passes/weave.py": {"verify"},
    f"{_VTA}/passes/encode/encode.py": {"verify"},
    f"{_VTA}/passes/synchronize/synchronize.py": {"verify", "_is_noop", "_without_tokens"},
    "python/loadstone/isa/program_tokens.py": {
        "prove_tokens",
        "_prove",
        "_require_queues",
        "_numbered",
    },
    "python/loadstone/isa/codec.py": {"check_fields", "_check_never"},
    "python/loadstone/backend/program.py": {"verify_code"},
    "python/loadstone/backend/rounding_bound.py": {
        "bound_of",
        "stated_integers",
        "_by_steps",
        "_first_sums",
        "_shares",
        "_by_trial",
        "_every",
    },
}
#: Judges of which only some mutants were tried: mutants.txt lacks some that decide the same.
SAMPLED = {
    "python/loadstone/backend/rounding_bound.py",  # 16 of 150 are not gone into
    "python/loadstone/graph/accumulators.py",
    f"{_PROVE}/machine.py",  # of 496 the first 265 and some: 17 of them are not gone into
    f"{_PROVE}/tflite/file.py",  # none of 260 was tried
    # Most were tried, and not all of those that survived are gone into:
    f"{_PROVE}/tflite/geometry.py",
    f"{_PROVE}/tflite/operators.py",
    f"{_PROVE}/tflite/weighted.py",
    "runtime/validate.c",
    # Some tens were tried:
    "runtime/program.c",
    "runtime/reach.c",
}
