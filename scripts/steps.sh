# Sourced by scripts/test and scripts/check: steps one after another with their times, some beside the others, and
# what the tests counted.
# shellcheck shell=bash

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
# All steps build in the profile `dev`, so that build scripts and macros are built once (see Cargo.toml).
profile=(--locked)
export CARGO_INCREMENTAL=0
logs=$(mktemp -d)
beside=
# The steps of this run.
asked=()

# where_possible NAME [ARGUMENT...]: a check that not every machine can make. It ends with 77 where it was skipped.
where_possible() {
  local name=$1 rc=0
  shift
  scripts/check-"$name" "$@" 2>&1 | tee "$logs/$name.log" || rc=$?
  case $rc in
    0) ;;
    77)
      printf '%s ' "$name" >>"$logs/skipped"
      was_skipped=yes
      ;;
    *) die "the $name check failed" ;;
  esac
}

# test_over_standins LOG FILTER...: tests of the workspace over a stand-in for NVIDIA's driver and over software Vulkan.
test_over_standins() {
  scripts/standin >/dev/null || die "the stand-in driver does not build"
  need_file '/usr/share/vulkan/icd.d/lvp_icd*.json' mesa-vulkan-drivers
  scripts/vulkan-layer >/dev/null || die "the Vulkan layer does not build"
  cargo build --workspace --bins --tests --quiet "${profile[@]}" || die "the programs do not build"
  cargo test --workspace --lib --test daemons --no-fail-fast "${profile[@]}" -- "${@:2}" 2>&1 | tee "$logs/$1.log" ||
    die "a backend gives other bits than its reference, or bears a fault badly"
}

# Sums the counts of all test binaries in one line.
totals() {
  awk '/^test result:/ { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i-1); if ($i == "failed;") f += $(i-1); if ($i == "ignored;") s += $(i-1) } }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' "$logs"/*.log
}

# Sets cpu to the CPU seconds of all processes that this shell has waited for; in a shell of its own they would be none.
cpu_seconds() {
  local file=$logs/times.$BASHPID
  times >"$file"
  cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] } printf "%d", s }' "$file")
}

# run_steps STEP...: one after another. A script that defines is_done and note_done skips those whose inputs passed.
run_steps() {
  local step started cpu_before
  for step; do
    if [ -e "$logs/beside.failed" ]; then join_beside; fi
    if declare -F is_done >/dev/null && is_done "$step"; then
      printf -- '\n-- %s: passed before with the same inputs, skipped (--all runs it)\n' "$step"
      continue
    fi
    started=$SECONDS was_skipped=
    cpu_seconds
    cpu_before=$cpu
    "step_$step"
    cpu_seconds
    printf -- '-- %s: %d s, %d s of CPU\n' "$step" $((SECONDS - started)) $((cpu - cpu_before))
    if [ -z "$was_skipped" ] && declare -F note_done >/dev/null; then note_done "$step"; fi
  done
}

# start_beside STEP...: runs these in the background, with what the others leave of the processors, as a process group that
# ends with this script.
start_beside() {
  set -m
  (
    renice -n 10 $BASHPID >/dev/null
    trap '[ $? -eq 0 ] || : >"$logs/beside.failed"' EXIT
    run_steps "$@"
  ) >"$logs/beside.out" 2>&1 &
  beside=$!
  set +m
}

# Waits for the steps in the background, shows their output, and fails where one failed.
join_beside() {
  [ -n "$beside" ] || return 0
  local rc=0
  wait "$beside" || rc=$?
  beside=
  cat "$logs/beside.out"
  [ $rc -eq 0 ] || exit 1
}

clean_up() {
  [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true
  rm -rf "$logs"
}
trap clean_up EXIT

# run_all MAIN BESIDE STEP...: the steps named, all when none is: those of the list BESIDE in the background.
run_all() {
  local -n main=$1 behind=$2
  shift 2
  local here=() there=() step
  asked=("$@")
  [ $# -gt 0 ] || asked=("${main[@]}" "${behind[@]}")
  for step in "${asked[@]}"; do
    case " ${behind[*]} " in
      *" $step "*) there+=("$step") ;;
      *) case " ${main[*]} " in
        *" $step "*) here+=("$step") ;;
        *) die "no step named $step; there are: ${main[*]} ${behind[*]}" ;;
      esac ;;
    esac
  done
  if [ ${#here[@]} -eq 0 ]; then
    run_steps "${there[@]}"
  else
    [ ${#there[@]} -eq 0 ] || start_beside "${there[@]}"
    run_steps "${here[@]}"
    join_beside
  fi
  heading "All passed in $SECONDS s"
  [ ! -e "$logs/skipped" ] || printf 'not checked on this machine: %s\n' "$(<"$logs/skipped")"
  if compgen -G "$logs/*.log" >/dev/null; then totals; fi
}
