"""Any scale on a device that has no multiplier behind its accumulators: the GEMM core multiplies.

runs.py       what a framework's rule makes of each accumulator: runs of equal outputs
search.py     multipliers of the accumulator's digits, or of the weights, that give the same
levels.py     multipliers and constants as int8 weight tiles, level by level
plan.py       the cheapest form for each block of channels
proof.py      whether the integers of a plan give the rule's output, for every accumulator
"""
