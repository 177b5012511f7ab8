# SPDX-License-Identifier: Apache-2.0
"""What instructions mean (reference.py), and what stands in a file of them (listing.py)."""
