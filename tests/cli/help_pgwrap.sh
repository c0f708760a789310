pgwrap --help
