# SPDX-License-Identifier: Apache-2.0
"""What schedule/ says, as operations on virtual tiles.

from_tir.py        TensorIR -> Python that calls the emitter
emitter.py         what that Python calls: one method per intrinsic
clipped_loops.py   its loops, clipped and joined
copy_pieces.py     its copies, as LOADs and STOREs
from_nests.py      nests -> the same operations, without TensorIR
verify.py          whether both come to the same
"""
