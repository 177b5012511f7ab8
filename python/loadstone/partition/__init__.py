# SPDX-License-Identifier: Apache-2.0
"""Who runs what: operator patterns, the eager and the cost-based partition, segments."""
