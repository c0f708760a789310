# A bare call explains itself on stderr and is a usage error.
pginfo || echo "exit $?"
pgunwrap || echo "exit $?"
pgwrap || echo "exit $?"
pgdiff || echo "exit $?"
pgjoin || echo "exit $?"
pgsplit || echo "exit $?"
pgcheck || echo "exit $?"
pgfit || echo "exit $?"
