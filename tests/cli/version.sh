pginfo --version
pgunwrap -V
pgwrap --version --json
pgjoin --version
pgsplit --version
