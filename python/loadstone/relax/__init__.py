# SPDX-License-Identifier: Apache-2.0
"""What Loadstone asks of TVM and its Relax."""
