"""Checkpoints: config.json and GGUF to encodings and back, loading, applying a scaling, writing."""
