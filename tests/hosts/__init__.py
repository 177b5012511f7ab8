# SPDX-License-Identifier: Apache-2.0
"""Tests of runtime/hosts and of python/loadstone/hosts."""
