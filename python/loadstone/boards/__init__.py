"""C projects that `loadstone export` copies: cortex-m, linux."""
