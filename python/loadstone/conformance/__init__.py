# SPDX-License-Identifier: Apache-2.0
"""Tests of a back end: the same networks are run through it and through the reference."""
