"""A local page over a folder of studies that follows runs while they go on; it only reads."""
