pginfo --version
pgunwrap -V
pgwrap --version --json
