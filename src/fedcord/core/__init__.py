"""What every other layer stands on: tensors, the algorithm contract, random streams, errors."""
