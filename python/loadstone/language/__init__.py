# SPDX-License-Identifier: Apache-2.0
"""Texts through a compiled decoder: tokens, what is written, and how well a text is predicted.

In:   an artifact that was compiled from a GGUF file, and the file of its words; a text.
Out:  a text, and its speed; perplexity, beside that of the float network.
Next: `loadstone generate` and `loadstone perplexity`.

    words.py        text to tokens, and back
    decoder.py      tokens through a session, one run for each
    generate.py     the next token, again and again
    perplexity.py   how well the tokens of a text were expected
    real_decoder.py the same network in float32, by NumPy
"""
