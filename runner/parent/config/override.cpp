#include "runner/parent/config/override.h"

#include <algorithm>
#include <iterator>

#include "runner/parent/config/override_lexer.h"
#include "runner/parent/config/override_value.h"
#include "runner/parent/config/scalar.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

/// Returns the item at `index`, counted from the end if negative; nullopt if there is none.
std::optional<std::ptrdiff_t> item_at(const Value::List& list, std::int64_t index) {
  const std::ptrdiff_t size = std::ssize(list);
  if (index < -size || index >= size) return std::nullopt;
  return index < 0 ? index + size : index;
}

EditProblem no_item(const Value::List& list, std::int64_t index) {
  const std::string size = std::to_string(list.size());
  return {"has no item " + std::to_string(index),
          list.empty() ? "it is empty"
                       : "it has " + size + (list.size() == 1 ? " item" : " items") +
                             "; indices start at 0, or count from the end as -1 to -" + size};
}

std::optional<EditProblem> remove_values(Value::List& list, const Edit& edit) {
  for (const Value& value : edit.values) {
    const bool is_there =
        std::ranges::any_of(list, [&](const Value& item) { return same_data(item, value); });
    if (!is_there) return EditProblem{"does not contain " + describe(value), ""};
  }
  std::erase_if(list, [&](const Value& item) {
    return std::ranges::any_of(edit.values,
                               [&](const Value& value) { return same_data(item, value); });
  });
  return std::nullopt;
}

}  // namespace

std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit) {
  const auto insert = [&](std::ptrdiff_t at) {
    list.insert(list.begin() + at, edit.values.begin(), edit.values.end());
  };
  switch (edit.kind) {
    case Edit::Kind::kAppend:
      insert(std::ssize(list));
      break;
    case Edit::Kind::kPrepend:
      insert(0);
      break;
    case Edit::Kind::kInsert: {
      const auto at = edit.index == std::ssize(list) ? std::optional(std::ssize(list))
                                                     : item_at(list, edit.index);
      if (!at) return no_item(list, edit.index);
      insert(*at);
      break;
    }
    case Edit::Kind::kRemoveAt: {
      const auto at = item_at(list, edit.index);
      if (!at) return no_item(list, edit.index);
      list.erase(list.begin() + *at);
      break;
    }
    case Edit::Kind::kRemoveValue:
      return remove_values(list, edit);
    case Edit::Kind::kReplace:
      break;
  }
  return std::nullopt;
}

namespace {

constexpr std::ptrdiff_t kDeepestKey = 64;

bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
bool continues_word(char c) { return begins_word(c) || (c >= '0' && c <= '9') || c == '-'; }

/// True if `text` matches [A-Za-z_$][A-Za-z0-9_$-]*.
bool is_key_word(std::string_view text) {
  return !text.empty() && begins_word(text[0]) && std::ranges::all_of(text, continues_word);
}

bool is_index(std::string_view text) {
  return !text.empty() && integer_length(text) == text.size();
}

/// True if all pieces of `text` between `separator`s satisfy `predicate`.
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
  const auto is_part = [](std::string_view part) { return is_key_word(part) || is_index(part); };
  return is_key_word(text) || (text.find('.') != text.npos && is_joined(text, '.', is_part));
}

/// Rewrites a[0].b as a.0.b; other brackets stay unchanged.
std::string with_dotted_indices(std::string_view key) {
  std::string result;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const std::size_t end = key[i] == '[' && i > 0 ? key.find(']', i) : key.npos;
    const bool ends_part =
        end != key.npos && (end + 1 == key.size() || key[end + 1] == '.' || key[end + 1] == '[');
    if (!ends_part || !is_index(key.substr(i + 1, end - i - 1))) {
      result += key[i];
      continue;
    }
    result.append(".").append(key.substr(i + 1, end - i - 1));
    i = end;
  }
  return result;
}

/// Stores the element in the override's member for elements of its kind.
void take(Element element, Override& result) {
  if (Value* value = element.value()) {
    result.value = std::move(*value);
  } else if (Sweep* sweep = element.sweep()) {
    if (sweep->kind == Sweep::Kind::kZip &&
        (result.kind != OverrideKind::kChange || result.package)) {
      fail_override(result.where, "zip() needs a name before it",
                    "write name=zip(a=[1,2],b.c=[3,4])");
    }
    result.sweep = std::move(*sweep);
  } else {
    if (result.kind != OverrideKind::kChange) {
      fail_override(result.where,
                    "'" + std::string(prefix(result.kind)) +
                        "' cannot be combined with a function that changes the value",
                    "write " + result.key + "=" + result.value_text);
    }
    result.edit = std::get<Edit>(std::move(element.data));
  }
}

}  // namespace

void read_override_key(const SourceText& source, std::size_t start, std::size_t end,
                       Override& result) {
  OverridePlaces places(source);
  const std::string_view text = std::string_view(source.contents).substr(0, end);
  if (text.substr(start).starts_with('~')) {
    result.kind = OverrideKind::kDelete;
    ++start;
  } else if (text.substr(start).starts_with('+')) {
    const bool is_double = text.substr(start).starts_with("++");
    result.kind = is_double ? OverrideKind::kForceAdd : OverrideKind::kAdd;
    start += is_double ? 2 : 1;
  }
  const std::size_t package = text.find('@', start);
  const std::string_view key = text.substr(start, package - start);
  result.key = with_dotted_indices(key);
  result.key_where = places.at(start);
  if (package != text.npos) {
    result.package = text.substr(package + 1);
    result.package_where = places.at(package + 1);
    if (!result.package->empty() && !is_dotted(*result.package)) {
      fail_override(result.package_where, "'" + *result.package + "' is not a package",
                    "write a package as a.b.c");
    }
  }
  if (key.empty()) fail_override(result.key_where, "the override has no key", "write key=value");
  const auto is_separator = [](char c) { return c == '.' || c == '/'; };
  if (std::ranges::count_if(result.key + result.package.value_or(""), is_separator) >=
      kDeepestKey) {
    fail_override(result.key_where, "the key is more than 64 levels deep", "",
                  ErrorCode::kNestingTooDeep);
  }
  const bool is_group = key.find('/') != key.npos && is_joined(key, '/', is_identifier);
  if (is_group || is_dotted(result.key)) return;
  const std::size_t blank = key.find_first_of(" \t");
  if (blank != key.npos) {
    fail_override(places.at(start + blank), "a key must not contain spaces",
                  "write key=value without spaces before '='");
  }
  const bool has_index = key.find('[') != key.npos;
  fail_override(result.key_where, "'" + std::string(key) + "' is not a key",
                has_index ? "write an index with a dot: layers.0"
                          : "write a key as a.b.c, and a config group as a/b");
}

std::size_t override_key_length(std::string_view text) {
  const auto may_be_key = [](char c) {
    return continues_word(c) || c == '.' || c == '/' || c == '@' || c == '+' || c == '[' ||
           c == ']';
  };
  return std::ranges::find_if_not(text, may_be_key) - text.begin();
}

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
    Override result;
    result.where = {&source, 1, 1};
    if (const auto offset = invalid_utf8(text)) {
      fail_override(OverridePlaces(source).at(*offset), "the text is not UTF-8", "",
                    ErrorCode::kInvalidUtf8);
    }
    if (const std::size_t zero = text.find('\0'); zero != text.npos) {
      fail_override(OverridePlaces(source).at(zero), "the override contains a control character");
    }
    const std::size_t equal = text.find('=');
    read_override_key(source, 0, std::min(equal, text.size()), result);
    if (equal == text.npos) {
      if (result.kind == OverrideKind::kDelete) return result;
      fail_override(OverridePlaces(source).at(text.size()),
                    "'" + source.contents + "' has no value",
                    "write " + source.contents + "=VALUE");
    }
    const std::size_t start = std::min(text.find_first_not_of(" \t", equal + 1), text.size());
    result.value_text = text.substr(start);
    take(read_override_value(source, start), result);
    return result;
  } catch (const OverrideError& error) {
    return error.diagnostic;
  }
}

Diagnostic needs_multirun(const Override& override) {
  const std::string key = std::string(prefix(override.kind)) + override.key +
                          (override.package ? "@" + *override.package : std::string());
  const bool is_list = override.sweep->kind == Sweep::Kind::kSimpleChoice;
  return {
      ErrorCode::kNeedsMultirun, override.sweep->where, "",
      "'" + key + "=" + override.value_text + "' lists several values, but this is a single run",
      is_list ? "for a list write " + key + "=[" + override.value_text + "], for a string " + key +
                    "=\\'" + override.value_text + "\\'; for several runs, use `retort sweep`"
              : "for several runs, use `retort sweep`"};
}

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

/// Puts `text` in quotes. Doubles backslashes before a quote, including the closing one, and
/// escapes quotes inside.
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

/// True if `written` parses to the string `text`.
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
