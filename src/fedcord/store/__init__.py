"""Run folders: what a run leaves behind, and how it is picked up again."""
