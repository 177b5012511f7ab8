# SPDX-License-Identifier: Apache-2.0
"""Measured speeds: `python -m tests.bench [NAME ...]`."""
