pgcheck --help
