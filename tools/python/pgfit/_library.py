"""Where this package's own libpg.so is: below the prefix of the environment, not beside its modules."""
import importlib.metadata
import pathlib


def path():
    """The path of libpg.so. FileNotFoundError if pgfit is not an installed package."""
    # pip --target moves everything after the installer wrote down where it was
    places = [pathlib.Path(__file__).resolve().parents[1] / "libexec" / "libpg" / "libpg.so"]
    try:
        places += [file.locate() for file in importlib.metadata.files("pgfit") or () if file.name == "libpg.so"]
    except importlib.metadata.PackageNotFoundError:
        pass
    for place in places:
        if place.exists():
            return str(place.resolve())
    raise FileNotFoundError("libpg.so: pgfit is not installed as a package, which brings it")
