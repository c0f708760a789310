"""libpg for Python: a checkpoint callback and a shard loader for Keras (pgfit.keras)."""

__version__ = "0.1.0"
