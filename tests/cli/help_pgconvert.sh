pgconvert --help
