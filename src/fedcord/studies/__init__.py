"""The named studies: a TOML file for each, read by `fedcord.experiment.named_study`."""
