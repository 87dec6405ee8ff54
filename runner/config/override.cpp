#include "runner/config/override.h"

#include <algorithm>

#include "runner/config/override_error.h"
#include "runner/config/override_key.h"
#include "runner/config/override_value.h"
#include "runner/text/utf8.h"

namespace runner {
namespace {

/// Puts what the value is where the override keeps it.
void take(Element element, Override& result) {
  if (Value* value = element.value()) {
    result.value = std::move(*value);
  } else if (Sweep* sweep = element.sweep()) {
    if (sweep->kind == Sweep::Kind::kZip && (result.kind != OverrideKind::kChange || result.package)) {
      fail_override(result.where, "zip() needs a name of its own before it", "write name=zip(a=[1,2],b.c=[3,4])");
    }
    result.sweep = std::move(*sweep);
  } else {
    if (result.kind != OverrideKind::kChange) {
      fail_override(
          result.where,
          "'" + std::string(prefix(result.kind)) + "' cannot be combined with a function that changes the value",
          "write " + result.key + "=" + result.value_text);
    }
    result.edit = std::get<Edit>(std::move(element.data));
  }
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
    Override result;
    result.where = {&source, 1, 1};
    if (const auto offset = invalid_utf8(text)) {
      fail_override(OverridePlaces(source).at(*offset), "the text is not UTF-8", "", ErrorCode::kInvalidUtf8);
    }
    if (const std::size_t zero = text.find('\0'); zero != text.npos) {
      fail_override(OverridePlaces(source).at(zero), "a control character");
    }
    const std::size_t equal = text.find('=');
    read_override_key(source, 0, std::min(equal, text.size()), result);
    if (equal == text.npos) {
      if (result.kind == OverrideKind::kDelete) return result;
      fail_override(OverridePlaces(source).at(text.size()), "'" + source.contents + "' has no value",
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
  const std::string key =
      std::string(prefix(override.kind)) + override.key + (override.package ? "@" + *override.package : std::string());
  const bool is_list = override.sweep->kind == Sweep::Kind::kSimpleChoice;
  return {ErrorCode::kNeedsMultirun, override.sweep->where, "",
          "'" + key + "=" + override.value_text + "' lists several values, and this is a single run",
          is_list ? "for a list write " + key + "=[" + override.value_text + "], for a text " + key + "=\\'" +
                        override.value_text + "\\'; `retort sweep` runs them all"
                  : "`retort sweep` runs them all"};
}

}  // namespace runner
