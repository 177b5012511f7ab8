# SPDX-License-Identifier: Apache-2.0
"""Stores to INP in the place of DRAM (store_inp.py): who reads what (flow.py), how a store falls to
pieces (pieces.py), and what must hold behind (verify.py)."""
