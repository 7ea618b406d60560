# Functions that resolve paths and read files. The command server has them from its start.
# `agent.workspaces.files` sets root and most, and calls one function. Each program that a function
# starts takes longer than all the rest of it.

# Sets found to the real root and the targets of paths, with all links followed. realpath is asked
# only if a path may lead elsewhere than it says.
resolve() {
  local path
  cd -P -- "$root" || exit
  found=("$PWD")
  for path; do
    if ! is_direct "$path"; then
      ask_realpath "$@"
      return
    fi
    [[ $path == /* ]] || path=$PWD/$path
    found+=("$path")
  done
}

# Returns 1 if a path has a link, dots or an empty part on its way.
is_direct() {
  local rest=${1#/} way=
  [[ $rest && /$rest/ != */./* && /$rest/ != */../* && /$rest/ != *//* ]] || return
  [[ $1 != /* ]] || way=/
  rest+=/
  while [[ $rest ]]; do
    way+=${rest%%/*}
    [[ ! -L $way ]] || return
    way+=/ rest=${rest#*/}
  done
}

ask_realpath() {
  mapfile -d '' found < <(realpath -mz -- . "$@" && printf '\0')
  ((${#found[@]} == $# + 2)) || exit
  unset 'found[-1]'
}

# Prints the real root and the targets of paths, each ending in NUL.
print_resolved() {
  resolve "$@"
  printf '%s\0' "${found[@]}"
}

# Prints what `print_resolved` does, and a line for each path: = and the content of its file, with !
# at the end if it cannot be read, or - if there is no file inside the root.
look_up() {
  local path
  print_resolved "$@"
  for path in "${found[@]:1}"; do
    if [[ $path != "$PWD"/* || ! -f $path ]]; then echo -
    else
      printf =
      content "$path" 2>/dev/null || printf '!'
      echo
    fi
  done
}

# Prints a file. Exits with 44 if there is none.
read_file() {
  [[ -f $1 ]] || exit 44
  content "$1"
}

# Prints the content of a file in base64, and one byte more than $most if it is larger.
content() {
  set -o pipefail
  head -c "$((most + 1))" -- "$1" | base64 -w 0
}

