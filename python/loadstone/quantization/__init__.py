# SPDX-License-Identifier: Apache-2.0
"""Quantization: a float network to int8, and what it costs. pipeline.py is the whole of it."""
