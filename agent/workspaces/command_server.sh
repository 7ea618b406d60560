# Runs one command after another for `agent.workspaces.shell`, its client on standard input and
# output. Needs bash 4.4; grep and /proc for stragglers, find for changes.
#
# Starting a process costs as much as many a command, so the server does that as rarely as
# possible. Our scripts find the functions of `work_tree.sh`, which is before this text.
#
# Arguments  the folder in which every command starts, and a mark for the environment of
#            every command, which identifies processes that left its group
# Request    "TOKEN SECONDS MODE COMMAND_BYTES INPUT_BYTES STAMP\n", the command, its input
#            (MODE is `login`, or `plain` for one of our scripts, which leaves no process
#            behind; the input is text, because it passes through a variable; STAMP is a time
#            in seconds, or empty)
# Answer     "TOKEN begin\n", the output, "\nTOKEN end STATUS TIMED_OUT CHANGED KILLED REFUSED\n"
#            (CHANGED is 0 if neither the folder nor its git index changed since the stamp.
#            KILLED and REFUSED count the processes of the container that were killed for memory,
#            and the processes that its limit refused; 0 on a host)
#
# The token is new in each request and invisible to commands: it is neither exported nor an
# argument, and the request stream is not among a command's file descriptors.

root=$1 mark=$2

# Script of the bash of each login command. A login profile may reset PATH: the folders it added
# (such as a conda environment's) come first, then PATH as set by the image or the host ($1). The
# text arrives on descriptor 9, because one argument is limited to 128 KiB.
prologue='
restore_path() {
  local IFS=: folder added=
  for folder in $PATH; do [[ :$1: == *":$folder:"* ]] || added+=$folder:; done
  PATH=$added$1
}
[[ $PATH == "$1" ]] || restore_path "$1"
unset -f restore_path
shift
eval "$(</dev/fd/9)" 9<&-'

login() {
  if ((${#command} < pipe_takes)); then exec 9<<<"$command"
  else exec 9< <(printf %s "$command"); fi
  WORKSPACE_MARK=$mark exec bash -lc "$prologue" bash "$PATH"
}

# Runs the command in a copy of this shell, which takes half the time of a new bash.
plain() {
  set +m
  export WORKSPACE_MARK=$mark
  eval "$command"
}

# Prints the process group of the command, and its exit status when it ends.
supervise() {
  cd -- "$root" 2>&"$out" || cd /
  if [[ $input ]]; then exec 8< <(printf %s "$input"); else exec 8</dev/null; fi
  set -m # gives the command a process group, and does not make it ignore SIGINT
  "$mode" <&8 >&"$out" 2>&1 8<&- {out}>&- &
  exec 8<&- {out}>&-
  printf '%d\n' $!
  wait $!
  printf '%d\n' $?
}

# Returns 0 if there are processes that did not exist at the start of this server. In a container
# there are usually none, so there is nothing to search.
newcomers() {
  local process
  for process in /proc/[0-9]*; do
    [[ ${resident[$process]-} || $process == "/proc/$supervisor_pid" ]] || return 0
  done
  return 1
}

# A process can leave the group with setsid, but hardly its environment. Killing takes a moment
# to show, hence the rounds. A process that the kernel holds must not block the server.
kill_stragglers() {
  local round found
  for ((round = 0; round < 100; round++)); do
    newcomers || return
    mapfile -t found < <(grep -lsF "WORKSPACE_MARK=$mark" /proc/[0-9]*/environ)
    ((${#found[@]})) || return
    found=("${found[@]#/proc/}")
    kill -KILL "${found[@]%/environ}"
  done
}

# Sets status and timed_out. A supervisor that was killed from within leaves no status.
run() {
  local supervisor supervisor_pid group failure=0
  status=137 timed_out=0
  exec {supervisor}< <(supervise)
  supervisor_pid=$!
  read -r -u "$supervisor" group || exit 1
  read -r -t "$seconds" -u "$supervisor" status || failure=$?
  ((failure > 128)) && status=124 timed_out=1
  kill -KILL -- "-$group"
  [[ $mode == plain ]] || kill_stragglers
  exec {supervisor}<&-
}

# Returns 1 if nothing in the folder or the index of its repository has changed since the time
# $stamp, else 0. The time of a change is set by the kernel, and no command can forge it.
#
# find prints `=` at its end, after every other place. Its exit status would not do: bash gives a
# wrong one for a process substitution that ended a moment ago, about once in a thousand times.
has_changed() {
  local seen finder first=
  exec {seen}< <(
    cd -- "$root" && exec find . .git/index / -path / -prune -printf = -o \
      -path ./.git -prune -o -newerct "@$stamp" -print -quit 2>&1
  )
  finder=$!
  read -r -t 5 -N 1 -u "$seen" first
  (($? <= 128)) || kill -KILL "$finder"
  exec {seen}<&-
  [[ $first != = ]]
}

# Sets killed and refused from the container's control group, of version 2 or 1. Only builtins are
# used: another process may not fit.
count() {
  local file name value
  killed=0 refused=0
  [[ $mark == container ]] || return
  for file in memory.events memory/memory.oom_control pids.events pids/pids.events; do
    while read -r name value; do
      case $file:$name in
        *:oom_kill) killed=$value ;;
        pids*:max) refused=$value ;;
      esac
    done <"/sys/fs/cgroup/$file"
  done
}

cd -- "$root" 2>&1 || exit 1
exec {out}>&1 2>/dev/null # bash reports every job that a signal ended
declare -A resident
for process in /proc/[0-9]*; do resident[$process]=yes; done
# Up to this size a here-string is a pipe and needs no disk space, in bash 5.1 and newer.
pipe_takes=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501 ? 0 : 1000))
while read -r token seconds mode command_bytes input_bytes stamp; do
  LC_ALL=C IFS= read -r -N "$command_bytes" command
  LC_ALL=C IFS= read -r -N "$input_bytes" input
  printf '%s begin\n' "$token"
  run
  changed=1
  [[ ! $stamp ]] || has_changed || changed=0
  count
  ending="${status:-137} $timed_out $changed $killed $refused"
  printf '\n%s end %s\n' "$token" "$ending"
done
