"""The version of this package: that of the libpg it calls."""
__version__ = "0.1.0"
