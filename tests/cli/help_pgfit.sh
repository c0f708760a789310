pgfit --help
