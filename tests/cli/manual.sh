# Every option of --help stands in the manual, in mdoc.
for tool in pgcheck pgconvert pgdiff pgfit pginfo pgjoin pgsplit pgunwrap pgwrap; do
    $tool --man >page
    sed -n 1,5p page
    for option in $($tool --help | sed -n '/^Options/,/^Exit/s/^  .*--\([a-z-]*\).*/\1/p'); do
        grep -q "^\.It .*Fl -$option" page || echo "$tool: no --$option in the manual"
    done
done
