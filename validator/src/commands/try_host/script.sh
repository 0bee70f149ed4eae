umask 077
for p in head timeout mktemp df tail; do command -v $p >/dev/null || { echo assay-try lacks $p; exit 1; }; done
echo assay-try host $(uname -s) $(uname -m)
read -r port validator key program options || exit 1
m= d=
clean() { [ -z "$m" ] || { kill -9 $m; wait $m; } 2>/dev/null; [ -z "$d" ] || rm -rf "$d"; echo assay-try removed; }
trap clean EXIT
trap "exit 1" HUP INT TERM PIPE
for base in "${TMPDIR:-/tmp}" /var/tmp "$HOME" /dev/shm; do
d=$(mktemp -d "$base/assay-try.XXXXXXXX" 2>/dev/null) || { d=; continue; }
echo exit 0 >"$d/x" && chmod 700 "$d/x" && set -- $(df -Pk "$d" | tail -n 1) && [ "$4" -gt $((program / 1024 + 4096)) ] && "$d/x" && break
rm -rf "$d"; d=
done 2>/dev/null
[ -n "$d" ] || { echo assay-try full; exit 1; }
head -c "$key" >"$d/miner.key" && head -c "$program" >"$d/assay-miner" && chmod 700 "$d/assay-miner" || { echo assay-try full; exit 1; }
"$d/assay-miner" --version >/dev/null || { echo assay-try unusable; exit 1; }
export HOME="$d" XDG_CACHE_HOME="$d" XDG_RUNTIME_DIR="$d" ASSAY_MINER_CONFIG=/dev/null
"$d/assay-miner" run --validator="assay://127.0.0.1:$port#$validator" --key-file="$d/miner.key" $options </dev/null >/dev/null & m=$!
echo assay-try started
while [ -n "$(timeout 20 head -c 1)" ]; do kill -0 $m 2>/dev/null || { echo assay-try ended; exit 1; }; done
