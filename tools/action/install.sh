#!/usr/bin/env bash
# Step of action.yml: installs the programs into an environment of their own, because the Pythons of systems refuse pip; later
# steps of the job find them, too. They need nothing of Python, so that packages which only the Python API uses stay away.
set -euo pipefail
cd "$GITHUB_WORKSPACE"
folder=$RUNNER_TEMP/pgfit

what=pgfit${PG_VERSION:+==$PG_VERSION}
if [ -n "$PG_WHEEL" ]; then
    case $PG_WHEEL in
    *://*) what=$PG_WHEEL ;;
    *)
        mapfile -t found < <(compgen -G "$PG_WHEEL" || true)
        if [ ${#found[@]} -ne 1 ]; then
            text=${PG_WHEEL//'%'/'%25'}
            printf '::error title=pgcheck::wheel: %s: %d files match, one is wanted\n' "${text//$'\n'/'%0A'}" "${#found[@]}"
            exit 2
        fi
        what=${found[0]}
        ;;
    esac
fi
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -- "$what"
echo "$folder/bin" >>"$GITHUB_PATH"
