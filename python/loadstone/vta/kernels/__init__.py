# SPDX-License-Identifier: Apache-2.0
"""What schedule/ says, as operations on virtual tiles.

from_nests.py      nests -> operations
kernel.py          what it makes
memories.py        the scratchpads, for the pass that inserts copies
emitter.py         what they are appended to
clipped_loops.py   its loops, clipped and joined
copy_pieces.py     its copies, as LOADs and STOREs
verify.py          whether the operations do what the nests say
"""
