pgunwrap -h
