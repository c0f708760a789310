pgdiff --help
