# One line that says what is wrong, and at most one that says what to try.
try() { "$@" || echo "exit $?: $*"; }
try pginfo --lyers x y.h5
try pginfo --jsom=1 y.h5
try pginfo --nothing-like-this y.h5
try pginfo -Z y.h5
try pginfo --sort y.h5
try pginfo --sort=shape y.h5
try pginfo --json=yes y.h5
try pginfo y.h5 --layers
try pginfo -
try pginfo ''
try pgunwrap one.h5 -
try pgunwrap one.h5 -o -
try pgunwrap -o '' one.h5
try pgunwrap -n -o x.h5
try pgunwrap one.h5
try pgunwrap one.h5 two.h5 three.h5
try pgunwrap --dry one.h5
try pgwrap --gpus two one.h5 two.h5
try pgwrap --gpus 0 one.h5 two.h5
try pgwrap one.h5 two.h5
try pgwrap --gpus 2 --like x.h5 one.h5 two.h5
try pginfo --completion tcsh
