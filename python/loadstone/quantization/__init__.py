"""Quantization: a float network to int8, and what it costs. pipeline.py is the whole of it."""
