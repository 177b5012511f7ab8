# SPDX-License-Identifier: Apache-2.0
"""Forty small networks by every way that a user has from PyTorch to Loadstone: where each lands.

In:   networks of images (images.py) and of sequences (sequences.py).
Out:  a cell for each network and way: how much is on the device, whether all of it runs in C, and
      how far it is from what the quantized model itself gives; or the line that refuses it.
Next: `python -m tests.matrix` prints the table; test_matrix.py compares it with tests/golden.
"""
