pgsplit --help
