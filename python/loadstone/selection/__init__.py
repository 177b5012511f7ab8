# SPDX-License-Identifier: Apache-2.0
"""Instruction selection: which instructions of a table compute an operator's nests."""
