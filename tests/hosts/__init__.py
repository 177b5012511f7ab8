"""Tests of runtime/hosts and of python/loadstone/hosts."""
