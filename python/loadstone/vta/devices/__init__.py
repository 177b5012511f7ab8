# SPDX-License-Identifier: Apache-2.0
"""One JSON file per device, and their timing tables."""
