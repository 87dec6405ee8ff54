#include "runner/parent/cli/completion/shell_line.h"

#include <algorithm>

namespace runner {

ShellLine read_shell_line(std::string_view line, std::string_view breaks) {
  ShellLine result{.words = {""}};
  char quote = 0;
  bool in_word = false;
  const auto keep = [&result] { result.kept = result.words.back().size(); };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    std::string& word = result.words.back();
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      in_word = true;
      if (breaks.find(c) != breaks.npos) keep();
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      const bool is_escape =
          !quote || line[i + 1] == '"' || line[i + 1] == '\\' || line[i + 1] == '$';
      if (!is_escape) word += c;
      word += line[++i];
      in_word = true;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      if (in_word) result.words.emplace_back();
      in_word = false;
      result.kept = 0;
    } else {
      word += c;
      in_word = true;
      if (!quote && breaks.find(c) != breaks.npos) keep();
    }
  }
  result.in_quotes = quote != 0;
  return result;
}

std::string shell_replacement(const ShellLine& line, std::string_view text) {
  const std::string_view rest = text.substr(std::min(line.kept, text.size()));
  if (line.in_quotes) return std::string(rest);
  std::string result;
  for (const char c : rest) {
    if (std::string_view(" \\'\"$`&;|<>()*?#!").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

namespace {

// Also runs in bash 3.2, which has neither mapfile nor compopt.
constexpr std::string_view kBash =
    R"(# Completion of retort for bash. In ~/.bashrc: source <(retort completion bash)
_retort() {
  local program="${1/#\~\//$HOME/}" line
  type -P -- "$program" >/dev/null || program=retort
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("$line")
  done < <("$program" __complete line "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  case ${#COMPREPLY[@]}:${COMPREPLY[0]-} in
    1:*[=./,] | 1:*\[*) compopt -o nospace 2>/dev/null ;;
  esac
}
complete -F _retort retort
)";

constexpr std::string_view kZsh = R"(#compdef retort
# Completion of retort for zsh. In ~/.zshrc, after compinit: source <(retort completion zsh)
_retort() {
  local -a open open_shown whole whole_shown
  local line text shown
  local program=${${(Q)words[1]}/#\~\//$HOME/}
  (( $+commands[$program] )) || [[ -x $program ]] || program=retort
  for line in "${(@f)$("$program" __complete words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    text=${line%%$'\t'*}
    shown=$text
    [[ $line == *$'\t'* ]] && shown+="  -- ${line#*$'\t'}"
    if [[ $text == *[=./,] || $text == *\[* ]]; then
      open+=("$text") open_shown+=("$shown")
    else
      whole+=("$text") whole_shown+=("$shown")
    fi
  done
  (( $#open )) && compadd -l -S '' -d open_shown -a open
  (( $#whole )) && compadd -l -d whole_shown -a whole
  (( $#open + $#whole ))
}
if [[ $funcstack[1] == _retort ]]; then _retort "$@"; else compdef _retort retort; fi
)";

constexpr std::string_view kFish =
    R"(# Completion of retort for fish. In ~/.config/fish/config.fish: retort completion fish | source
function __retort_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string replace -r '^[\'"]' '')
    set -l program $words[1]
    type -q $program; or set program retort
    $program __complete words $words[2..-1] "$current" 2>/dev/null
end
complete -c retort -f -a '(__retort_complete)'
)";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : "";
}

}  // namespace runner
