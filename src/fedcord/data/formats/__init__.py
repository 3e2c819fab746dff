"""Readers of file formats: bytes in, arrays out, and a clear error for anything malformed."""
