# SPDX-License-Identifier: Apache-2.0
"""Passes over nests and over TensorIR that any back end can use: they depend on memories, not on
devices."""
