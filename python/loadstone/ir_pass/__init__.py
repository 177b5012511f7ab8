# SPDX-License-Identifier: Apache-2.0
"""TensorIR passes that any back end can use: they know memory scopes, not devices."""
