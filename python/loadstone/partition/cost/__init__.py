# SPDX-License-Identifier: Apache-2.0
"""The cost-based partition: candidates, prices, search."""
