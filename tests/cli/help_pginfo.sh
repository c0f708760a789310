pginfo --help
