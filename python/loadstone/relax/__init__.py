"""What Loadstone asks of TVM and its Relax."""
