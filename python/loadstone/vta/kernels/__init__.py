# SPDX-License-Identifier: Apache-2.0
"""What schedule/ says, as operations on virtual tiles.

from_nests.py      nests -> operations
from_tir.py        TensorIR -> operations: for passes of a back end, and for TVM's schedules
kernel.py          what either makes
memories.py        the scratchpads, for the pass that inserts copies
emitter.py         one method per intrinsic
clipped_loops.py   its loops, clipped and joined
copy_pieces.py     its copies, as LOADs and STOREs
verify.py          whether nests and their TensorIR come to the same
"""
