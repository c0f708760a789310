"""Where this package's own libpg.so is: below the prefix of the environment, not beside its modules."""
import importlib.metadata


def path():
    """The path of libpg.so, as the installer wrote it down. FileNotFoundError if pgfit is not an installed package."""
    try:
        files = importlib.metadata.files("pgfit") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == "libpg.so":
            return str(file.locate().resolve())
    raise FileNotFoundError("libpg.so: pgfit is not installed as a package, which brings it")
