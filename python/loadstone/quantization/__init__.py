# SPDX-License-Identifier: Apache-2.0
"""Quantization: a float network to int8, and its cost in accuracy. pipeline.py has all steps."""
