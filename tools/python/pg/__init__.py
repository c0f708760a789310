"""libpg for Python: a checkpoint callback and a shard loader for Keras (pg.keras)."""

__version__ = "0.1.0"
