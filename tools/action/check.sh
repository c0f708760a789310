#!/usr/bin/env bash
# Step of action.yml: pgcheck over all files that a line of PG_FILES matches. What it finds become annotations, and a table in the
# summary of the job.
set -euo pipefail
shopt -s globstar nullglob
cd "$GITHUB_WORKSPACE"

say() { # kind, message: an annotation
    local text=${2//'%'/'%25'}
    text=${text//$'\r'/'%0D'}
    printf '::%s title=pgcheck::%s\n' "$1" "${text//$'\n'/'%0A'}"
}
lines() { # text: its lines that are not empty, without blanks around them, into the array `line`
    local one
    line=()
    while IFS= read -r one; do
        one=${one#"${one%%[![:space:]]*}"}
        one=${one%"${one##*[![:space:]]}"}
        [ -z "$one" ] || line+=("$one")
    done <<<"$1"
}

files=()
declare -A seen
lines "$PG_FILES"
for pattern in "${line[@]}"; do
    if [ -e "$pattern" ]; then
        found=("$pattern")
    else
        IFS= # blanks belong to names
        # shellcheck disable=SC2206
        found=($pattern)
        unset IFS
    fi
    [ ${#found[@]} -gt 0 ] || say "$([ "$PG_IF_NONE" = ignore ] && echo notice || echo warning)" "no file matches $pattern"
    for f in "${found[@]}"; do
        [ -n "${seen[$f]:-}" ] || files+=("$f")
        seen[$f]=1
    done
done
echo "files=${#files[@]}" >>"$GITHUB_OUTPUT"
if [ ${#files[@]} -eq 0 ]; then
    case $PG_IF_NONE in
    ignore | warning) status=0 ;;
    *) status=1 && say error "there is nothing to check: no file matches" ;;
    esac
    echo "status=$status" >>"$GITHUB_OUTPUT"
    exit "$status"
fi

lines "$PG_OPTIONS"
options=("${line[@]}" -j "$PG_JOBS")
[ -z "$PG_MODEL" ] || options+=(--model "$PG_MODEL")
[ -z "$PG_DEVICE" ] || options+=(--device "$PG_DEVICE")
complaints=$RUNNER_TEMP/pgcheck.err
status=0
pgcheck --format github --summary "$GITHUB_STEP_SUMMARY" "${options[@]}" -- "${files[@]}" 2>"$complaints" || status=$?
# Lines that may hold names from files are no commands of the workflow.
if [ -s "$complaints" ]; then
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    echo "::stop-commands::$token"
    cat "$complaints"
    echo "::$token::"
fi
echo "status=$status" >>"$GITHUB_OUTPUT"
exit "$status"
