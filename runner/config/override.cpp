#include "runner/config/override.h"

#include <algorithm>

#include "runner/config/override_lexer.h"
#include "runner/config/override_value.h"
#include "runner/utf8.h"

namespace runner {
namespace {

/// [A-Za-z_$][A-Za-z0-9_$-]*
bool is_key_word(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
  };
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

/// Words or integers joined by `separator`; one alone must be a word.
template <typename Predicate>
bool is_joined(std::string_view text, char separator, Predicate predicate) {
  while (true) {
    const std::size_t end = text.find(separator);
    if (!predicate(text.substr(0, end))) return false;
    if (end == text.npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool is_dotted(std::string_view text) {
  const auto is_part = [](std::string_view part) {
    return is_key_word(part) || (!part.empty() && integer_length(part) == part.size());
  };
  return is_key_word(text) || (text.find('.') != text.npos && is_joined(text, '.', is_part));
}

/// Reads prefix, key and package; `end` is where they end.
void read_key(const SourceText& source, std::size_t end, Override& result) {
  const std::string_view text = std::string_view(source.contents).substr(0, end);
  std::size_t start = 0;
  if (text.starts_with('~')) {
    result.kind = OverrideKind::kDelete;
    start = 1;
  } else if (text.starts_with('+')) {
    start = text.starts_with("++") ? 2 : 1;
    result.kind = start == 2 ? OverrideKind::kForceAdd : OverrideKind::kAdd;
  }
  const std::size_t package = text.find('@', start);
  const std::string_view key = text.substr(start, package - start);
  result.key = key;
  result.key_where = override_place(source, start);
  if (package != text.npos) {
    result.package = text.substr(package + 1);
    result.package_where = override_place(source, package + 1);
    if (!result.package->empty() && !is_dotted(*result.package)) {
      fail_override(source, package + 1, "'" + *result.package + "' is no package", "a package is written a.b.c");
    }
  }
  if (key.empty()) fail_override(source, start, "the override has no key", "write key=value");
  const bool is_group = key.find('/') != key.npos && is_joined(key, '/', is_identifier);
  if (is_group || is_dotted(key)) return;
  const std::size_t blank = key.find_first_of(" \t");
  if (blank != key.npos)
    fail_override(source, start + blank, "a key may not hold blanks", "write key=value without blanks before '='");
  const bool has_index = key.find('[') != key.npos;
  fail_override(source, start, "'" + std::string(key) + "' is no key",
                has_index ? "write an index with a dot: layers.0" : "a key is written a.b.c, a config group a/b");
}

}  // namespace

std::string_view prefix(OverrideKind kind) {
  switch (kind) {
    case OverrideKind::kChange:
      return "";
    case OverrideKind::kAdd:
      return "+";
    case OverrideKind::kForceAdd:
      return "++";
    case OverrideKind::kDelete:
      return "~";
  }
  return "";
}

Result<Override> parse_override(const SourceText& source) {
  try {
    const std::string_view text = source.contents;
    if (const auto offset = invalid_utf8(text))
      fail_override(source, *offset, "the text is not UTF-8", "", ErrorCode::kInvalidUtf8);
    if (const std::size_t zero = text.find('\0'); zero != text.npos) fail_override(source, zero, "a control character");
    Override result;
    result.where = {&source, 1, 1};
    const std::size_t equal = text.find('=');
    read_key(source, std::min(equal, text.size()), result);
    if (equal == text.npos) {
      if (result.kind == OverrideKind::kDelete) return result;
      fail_override(source, text.size(), "'" + source.contents + "' sets no value",
                    "write " + source.contents + "=VALUE");
    }
    const std::size_t start = std::min(text.find_first_not_of(" \t", equal + 1), text.size());
    result.value_text = text.substr(start);
    result.value = read_override_value(source, start);
    return result;
  } catch (const OverrideError& error) {
    return error.diagnostic;
  }
}

}  // namespace runner
