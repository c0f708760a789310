# shellcheck shell=sh disable=SC2034 # $failed is read where this is sourced
# For tests of packages, within a bare root. Sourced; $failed is 1 as soon as a check has failed.
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
no_compiler() { for c in cc gcc clang tcc; do ! command -v "$c" || return 1; done; }
