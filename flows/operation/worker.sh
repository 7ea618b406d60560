# Runs a worker of the pool `durabench`, with the options of `prefect worker start`:
#
#   sh flows/operation/worker.sh --work-queue cells --limit 2
#
# On SIGTERM or Ctrl-C it takes no more flow runs and asks its own to stop. They finish their calls
# in flight, for at most DURABENCH_STOP_GRACE_S, and it ends with the last of them. A SIGTERM to
# Prefect's worker itself would end it before them, and a container ends with its worker.
prefect worker start --pool durabench "$@" &
worker=$!

stop() {
    kill -STOP "$worker"
    runs=$(cat "/proc/$worker/task/"*/children)
    kill -KILL "$worker"
    for run in $runs; do kill -TERM "$run"; done
    # Of a process that has ended, but that its new parent has not waited for, no command is left.
    for run in $runs; do
        while grep -q . "/proc/$run/cmdline" 2>/dev/null; do sleep 0.2; done
    done
    exit 0
}
trap stop TERM INT

wait "$worker"
# It has ended itself, as it does without a server. The flow runs that it left finish their calls in
# flight, and a container ends with this script.
sleep 25
