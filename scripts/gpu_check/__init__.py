"""The steps of scripts/gpu-check, one a file."""
