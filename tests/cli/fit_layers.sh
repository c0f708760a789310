# The table of layer classes: what trains each, or why nothing does.
pgfit --list-layers | grep -w -e class -e Conv2D -e Lambda -e Hashing | sed 's/  */ /g'
pgfit --list-layers | head -1 | sed 's/[0-9][0-9]*/N/g'
pgfit --list-layers --json | grep -o -e '"layers": {"[^}]\{20\}' -e '"Conv2D": {[^}]*}' -e '"onnx": {.\{20\}' -e '"Hashing": [a-z]*' -e '"Lambda": "[^"]*"' -e '"Lambda": [a-z]*'
