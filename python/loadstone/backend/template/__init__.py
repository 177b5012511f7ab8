"""What `loadstone backend new NAME` writes: a back end that works, and its test."""
