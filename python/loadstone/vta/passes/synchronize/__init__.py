# SPDX-License-Identifier: Apache-2.0
"""Tokens between stages (synchronize.py), and what orders instructions (hazards.py)."""
