#include "runner/parent/sweep/script_text.h"

#include <algorithm>

#include "runner/parent/config/yaml_writer.h"
#include "runner/shared/text/character.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

bool is_plain_letter(char letter) {
  constexpr std::string_view kFurther = "-_./,:=%+@";
  return is_digit(letter) || is_letter(letter) || kFurther.find(letter) != kFurther.npos;
}

bool is_control_letter(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

std::string sbatch_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain_letter)) return text;
  std::string word = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') word += '\\';
    word += letter;
  }
  return word + '"';
}

std::string yaml_word(const std::string& text) { return quoted_yaml(text); }

std::string unexpanded(const std::string& text) {
  std::string result;
  for (const char letter : text) result += letter == '$' ? std::string("$$") : std::string(1, letter);
  return result;
}

std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path, const std::string& what,
                                           ScriptKind kind) {
  const std::string text = path.string();
  std::string why;
  if (std::ranges::any_of(text, is_control_letter)) why = "a control character, such as a newline";
  // A backslash stops sbatch from filling in the task's number in the name of a log.
  else if (kind == ScriptKind::kSlurm && text.find('\\') != text.npos) why = "a backslash";
  else if (kind == ScriptKind::kKubernetes && invalid_utf8(text)) why = "bytes that are not UTF-8";
  if (why.empty()) return std::nullopt;
  return Diagnostic{ErrorCode::kClusterRefused,
                    {},
                    "",
                    "the path of " + what + ", '" + printable(text) + "', has " + why +
                        ", which a script for the cluster cannot hold",
                    "give it another name, and begin the sweep there"};
}

}  // namespace runner
