# SPDX-License-Identifier: Apache-2.0
"""Stores that requantize in the place of RQs (store_requantize.py), and what must hold behind
(verify.py)."""
