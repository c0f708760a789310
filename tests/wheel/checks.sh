# shellcheck shell=sh disable=SC2034
# What the scripts of this folder have in common: each check is a command and what it must do. Sourced; `failed` says how it went.
failed=0
check() { # what, command: says so if it fails
    what=$1
    shift
    "$@" >/tmp/said 2>&1 || {
        failed=1
        echo "not ok: $what"
        sed 's/^/    /' /tmp/said | tail -20
    }
}
says() { # pattern, command
    pattern=$1
    shift
    "$@" >/tmp/answer 2>&1 || {
        cat /tmp/answer
        return 1
    }
    grep -q "$pattern" /tmp/answer || {
        cat /tmp/answer
        return 1
    }
}
refuses() { # exit status, pattern, command
    status=$1 pattern=$2
    shift 2
    rc=0
    "$@" >/tmp/answer 2>&1 || rc=$?
    if [ "$rc" -ne "$status" ] || ! grep -q "$pattern" /tmp/answer; then
        echo "exit $rc"
        cat /tmp/answer
        return 1
    fi
}
