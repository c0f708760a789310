# The scripts that the shells read are well formed, and know every long option of --help.
for tool in pgcheck pgconvert pgdiff pgfit pginfo pgjoin pgsplit pgunwrap pgwrap; do
    $tool --completion bash >bash.sh
    sh -c 'command -v bash' >/dev/null && bash -n bash.sh
    for option in $($tool --help | sed -n 's/^  .*\(--[a-z-]*\) .*/\1/p'); do
        for shell in bash zsh fish; do
            $tool --completion $shell | grep -q -e "${option#--}" || echo "$tool: no $option for $shell"
        done
    done
done
pgwrap --completion=fish
