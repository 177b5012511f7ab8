"""TensorIR passes that any back end can use: they know memory scopes, not devices."""
