pgjoin --help
