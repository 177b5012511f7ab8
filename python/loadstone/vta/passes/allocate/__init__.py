# SPDX-License-Identifier: Apache-2.0
"""Scratchpad addresses for virtual tiles (allocate.py), and whether tiles are there (verify.py)."""
