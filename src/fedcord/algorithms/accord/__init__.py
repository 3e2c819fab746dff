"""One-shot encoders under one exact head."""
