#include "runner/parent/config/override_text.h"

#include "runner/parent/config/override_error.h"
#include "runner/parent/config/override_value.h"
#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

std::string escaped_for_override(std::string_view text) {
  constexpr std::string_view kSpecial = "\\()[]{}:=, \t";
  std::string result;
  for (const char c : text) {
    if (kSpecial.find(c) != kSpecial.npos) result += '\\';
    result += c;
  }
  return result;
}

/// Backslashes before a quote, the closing one too, are doubled, and the quote is escaped.
std::string quoted_with(std::string_view text, char quote) {
  std::string result(1, quote);
  std::size_t backslashes = 0;
  for (const char c : text) {
    if (c == quote) result.append(backslashes + 1, '\\');
    backslashes = c == '\\' ? backslashes + 1 : 0;
    result += c;
  }
  return result.append(backslashes, '\\') + quote;
}

/// Does `written` mean the string `text`?
bool reads_as(const std::string& written, const std::string& text) {
  const SourceText source{"", written};
  try {
    const Element read = read_override_value(source, 0);
    return read.value() && read.value()->text() && *read.value()->text() == text &&
           read.value()->form == ScalarForm::kPlain;
  } catch (const OverrideError&) {
    return false;
  }
}

std::string text_of(const std::string& text, ScalarForm form) {
  if (form == ScalarForm::kBigInteger) return text;
  if (form == ScalarForm::kSingleQuoted) return quoted_with(text, '\'');
  if (form == ScalarForm::kDoubleQuoted) return quoted_with(text, '"');
  const std::string written = escaped_for_override(text);
  if (!text.empty() && reads_as(written, text)) return written;
  return quoted_with(text, text.find('\'') == text.npos ? '\'' : '"');
}

std::string key_text(const Entry& entry) {
  if (entry.key_type == KeyType::kBool) return entry.key == "true" ? "True" : "False";
  return entry.key_type == KeyType::kString ? text_of(entry.key, ScalarForm::kPlain) : entry.key;
}

}  // namespace

std::string element_text(const Value& value) {
  if (!value.secret_as.empty()) return value.secret_as;
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "True" : "False";
  if (const auto* text = value.text()) return text_of(*text, value.form);
  std::string result;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) result += (result.empty() ? "" : ",") + element_text(item);
    return "[" + result + "]";
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) {
      result += (result.empty() ? "" : ",") + key_text(entry) + ":" + element_text(entry.value);
    }
    return "{" + result + "}";
  }
  return scalar_text(value);
}

std::string override_text(const Override& override) {
  std::string result = std::string(prefix(override.kind)) + override.key;
  if (override.package) result += "@" + *override.package;
  const std::string* text = override.value ? override.value->text() : nullptr;
  if (text && text->empty() && override.value->form == ScalarForm::kPlain) return result + "=";
  if (override.value) return result + "=" + element_text(*override.value);
  return override.sweep || override.edit ? result + "=" + override.value_text : result;
}

}  // namespace runner
