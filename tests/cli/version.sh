# The first line is for scripts; behind it stand the libraries inside, whose versions are the machine's.
for tool in pginfo pgunwrap pgwrap pgjoin pgsplit pgconvert pgcheck pgdiff pgfit; do
    $tool --version | head -n 1
    $tool -V | sed -n 's/^  \(HDF5\|zlib\|jansson\|libzip\) [0-9][0-9.]*$/\1/p' | paste -sd ' '
done
pgwrap --version --json | sed 's/"inside": \["\(gcc\|clang\) [0-9.]*", "HDF5 [0-9.]*", .*"\]/HDF5 and more/'
