# SPDX-License-Identifier: Apache-2.0
"""Where networks run already: TVM, LiteRT, ONNX Runtime call Loadstone for what it takes."""
