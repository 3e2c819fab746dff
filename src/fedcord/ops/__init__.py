"""Pure operations on tensors that several algorithms need."""
