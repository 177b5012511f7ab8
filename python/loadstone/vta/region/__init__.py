# SPDX-License-Identifier: Apache-2.0
"""Operators that one device takes together.

patterns.py         which it takes, and why it leaves the others
real_network.py     what a device of bfloat16 wants done before
fold_pixels.py      neighbouring pixels of narrow tensors as channels
offload.py          the operators as one program
further.py          the same for a VTA beside the artifact's own
schedule_space.py   what is worth trying for a layer
"""
