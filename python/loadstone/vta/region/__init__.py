# SPDX-License-Identifier: Apache-2.0
"""Operators that one device takes together.

patterns.py         the operators that it takes, and the reasons for refusing others
real_network.py     the form of float networks for devices of bfloat16
fold_pixels.py      neighbouring pixels of narrow tensors as channels
offload.py          the operators as one program
further.py          the same for a further VTA of an artifact
schedule_space.py   the choices to try for a layer
"""
