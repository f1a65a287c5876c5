# What the experiments share: arguments, a dry run, traffic, and the judgement of it. Sourced, not run.
#
#   EXPERIMENT [--namespace NAME] [--release NAME] [--dry-run]
#
# GOQUEUE_SERVER and GOQUEUE_API_KEY are those of `goqueue`: a name or a port-forward by which the cluster is reached.
set -euo pipefail

namespace=default
release=goqueue
dry_run=false
while [[ $# -gt 0 ]]; do
    case "$1" in
        --namespace) namespace="$2" && shift 2 ;;
        --release) release="$2" && shift 2 ;;
        --dry-run) dry_run=true && shift ;;
        *)
            echo "unknown argument $1, expected: [--namespace NAME] [--release NAME] [--dry-run]" >&2
            exit 2
            ;;
    esac
done
# The chart's name for its objects, unless fullnameOverride says otherwise.
name="$release"
[[ "$release" == *goqueue* ]] || name="$release-goqueue"
topic="chaos-$(date +%s)"
work="$(mktemp -d)"
writer=""
selector="app.kubernetes.io/name=goqueue,app.kubernetes.io/instance=$release"

# do_it COMMAND...: print it, and run it unless this is a dry run
do_it() {
    printf '+'
    printf ' %q' "$@"
    echo
    "$dry_run" || "$@"
}

kube() {
    do_it kubectl --namespace "$namespace" "$@"
}

# The name of a node; the first one is the default.
node() {
    echo "$name-${1:-1}"
}

finish() {
    [[ -z "$writer" ]] || kill "$writer" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# Publish a number every 100 ms until the experiment is over; what was acknowledged is noted.
begin_traffic() {
    do_it goqueue topic create "$topic" --partitions 6
    echo "+ goqueue produce $topic -m NUMBER    # every 100 ms, until the end"
    "$dry_run" && return
    (
        number=0
        while :; do
            number=$((number + 1))
            if goqueue produce "$topic" --message "$number" >/dev/null 2>>"$work/refused"; then
                echo "$number $(date +%s%3N)" >>"$work/acknowledged"
            fi
            sleep 0.1
        done
    ) &
    writer=$!
}

# Nothing that was acknowledged may be missing; tells the longest pause between two acknowledgements.
judge_traffic() {
    echo "+ goqueue consume $topic --from-beginning    # everything acknowledged has to be there"
    "$dry_run" && return
    kill "$writer" && wait "$writer" 2>/dev/null || true
    writer=""
    goqueue consume "$topic" --from-beginning --count 1000000000 --format '%v\n' | sort -u >"$work/stored"
    cut -d ' ' -f 1 "$work/acknowledged" | sort -u >"$work/expected"
    local lost
    lost="$(comm -23 "$work/expected" "$work/stored" | wc -l)"
    echo "acknowledged $(wc -l <"$work/expected"), lost $lost, longest pause $(awk '{ if (last && $2 - last > most) most = $2 - last; last = $2 } END { print most + 0 }' "$work/acknowledged") ms"
    goqueue topic delete "$topic" --force >/dev/null
    [[ "$lost" -eq 0 ]]
}

# recovered SECONDS: until every node is ready and every partition whole
recovered() {
    kube rollout status "statefulset/$name" --timeout "${1}s"
    do_it goqueue cluster health
}

# pause SECONDS
pause() {
    do_it sleep "$1"
}
