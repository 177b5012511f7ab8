"""The instruction set: spec, codec, assembler, generated files."""
