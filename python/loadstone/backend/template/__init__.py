# SPDX-License-Identifier: Apache-2.0
"""What `loadstone backend new NAME` writes: a back end that works, and its test."""
