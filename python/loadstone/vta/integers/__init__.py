# SPDX-License-Identifier: Apache-2.0
"""Integers with which a device computes a framework's rule, found and proven for every value.
docs/any-scale.md is the chapter on it, with one lane worked by hand.

On a device with a multiplier, a shift and a rounding behind its accumulators:

    requantization_search.py   operands of RQ that give a rule's integers
    weighted_sum.py            the same for a sum of products, such as an addition of two tensors

On one that has none, the GEMM core multiplies. Convolutions and dense layers, whose sums are too
wide to try all:

    runs.py       what a framework's rule makes of each accumulator: runs of equal outputs
    native_runs.py   the same for native/, whose C++ tries candidates
    digit_search.py  multipliers of the accumulator's digits that give the same
    search.py     what searches share; multipliers of the weights
    levels.py     multipliers and constants as int8 weight tiles, level by level
    plan.py       the cheapest form for each block of channels
    near.py       cheaper forms, for outputs that may be one level off
    proof.py      whether the integers of a plan give the rule's output, for every accumulator
    lanes.py, joined.py   the same for many blocks side by side

Sums of a few values of eight bits, of which all combinations are tried:

    linear_form.py    sums of inputs times constants, shifted and clamped
    linear_search.py  constants that give the rule's integers
    pair.py, mean.py  the rules of add and its like, and of averages
    chain.py          steps that compute a form, and whether they give the rule's output
"""
