# SPDX-License-Identifier: Apache-2.0
"""Analyse a compiled model: its cycles, and its first wrong layer; as text, as a page, as data."""
