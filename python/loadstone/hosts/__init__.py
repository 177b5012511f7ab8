"""Where networks run already: TVM, LiteRT, ONNX Runtime call Loadstone for what it takes."""
