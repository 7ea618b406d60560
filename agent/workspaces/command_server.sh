# Runs one command after another for `agent.workspaces.shell`, which is at the other end of
# standard input and output. Needs bash 4.4, setsid and head; grep and /proc for stragglers.
#
# Arguments  the folder in which every command starts, and a mark for the environment of
#            every command, by which processes that left its group are found again
# Request    "TOKEN SECONDS MODE COMMAND_BYTES INPUT_BYTES\n", the command, its input
#            (MODE is `login` or `plain`; the input is text, for it passes a variable)
# Answer     "TOKEN begin\n", the output, "\nTOKEN end STATUS TIMED_OUT\n"
#
# The token is new in each request and no command sees it: it is neither exported nor an
# argument, and the request stream is not among a command's file descriptors.

root=$1 mark=$2

# What each command's bash runs. A login profile may set PATH anew: the folders it added (such
# as a conda environment's) come first, then PATH as the image or the host had it ($1). The
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

# Prints the process group of the command, and its exit status when it ends.
supervise() {
  cd -- "$root" 2>&"$out" || cd /
  exec 9< <(printf %s "$command")
  if [[ $input ]]; then exec 8< <(printf %s "$input"); else exec 8</dev/null; fi
  WORKSPACE_MARK=$mark setsid bash "$flags" "$prologue" bash "$PATH" \
    <&8 >&"$out" 2>&1 8<&- {out}>&- &
  exec 8<&- 9<&- {out}>&-
  printf '%d\n' $!
  wait $!
  printf '%d\n' $?
}

# A process can leave the group with setsid, but hardly its environment. Killing takes a
# moment to show, hence the rounds; a process that the kernel holds must not hold us too.
kill_stragglers() {
  local round found
  for ((round = 0; round < 100; round++)); do
    mapfile -t found < <(grep -lsF "WORKSPACE_MARK=$mark" /proc/[0-9]*/environ)
    ((${#found[@]})) || return
    found=("${found[@]#/proc/}")
    kill -KILL "${found[@]%/environ}"
  done
}

# Sets status and timed_out. A supervisor that was killed from within leaves no status.
run() {
  local supervisor group failure=0
  status=137 timed_out=0
  exec {supervisor}< <(supervise)
  read -r -u "$supervisor" group || exit 1
  read -r -t "$seconds" -u "$supervisor" status || failure=$?
  ((failure > 128)) && status=124 timed_out=1
  kill -KILL -- "-$group"
  kill_stragglers
  exec {supervisor}<&-
}

cd -- "$root" 2>&1 || exit 1
exec {out}>&1 2>/dev/null # bash reports every job that a signal ended
while read -r token seconds mode command_bytes input_bytes; do
  command=$(head -c "$command_bytes") input=
  ((input_bytes)) && input=$(head -c "$input_bytes")
  flags=-pc
  [[ $mode == login ]] && flags=-lc
  printf '%s begin\n' "$token"
  run
  printf '\n%s end %d %d\n' "$token" "${status:-137}" "$timed_out"
done
