"""Is a back end right? The same networks through it and through the reference."""
