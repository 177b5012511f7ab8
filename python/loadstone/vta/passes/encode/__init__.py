# SPDX-License-Identifier: Apache-2.0
"""Operations with addresses -> instructions and micro-ops.

encode.py           the pass
expand.py           what one operation becomes
folding.py          steps of folded loops
split_transfer.py   copies that no field holds, as several
micro_op_cache.py   which lists of micro-ops are resident
verify.py           whether instructions fit, and find their micro-ops
"""
