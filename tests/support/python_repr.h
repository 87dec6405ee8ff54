#pragma once

#include <string>

#include "runner/parent/config/scalar.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A string as Python's repr() shows it. Letters outside ASCII are kept.
inline std::string python_repr(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (const char c : text) {
    if (c == '\\' || c == quote) result += {'\\', c};
    else if (c == '\n') result += "\\n";
    else if (c == '\t') result += "\\t";
    else if (c == '\r') result += "\\r";
    else result += c;
  }
  return result + quote;
}

/// A value as Python's repr() shows what OmegaConf reads.
inline std::string python_repr(const Value& value) {
  if (value.is_null()) return "None";
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "True" : "False";
  if (const auto* list = value.list()) {
    std::string items;
    for (const Value& item : *list) items += (items.empty() ? "" : ", ") + python_repr(item);
    return "[" + items + "]";
  }
  if (const auto* map = value.map()) {
    std::string entries;
    for (const Entry& entry : *map) {
      std::string key = entry.key;
      if (entry.key_type == KeyType::kString) key = python_repr(entry.key);
      if (entry.key_type == KeyType::kBool) key = entry.key == "true" ? "True" : "False";
      entries += (entries.empty() ? "" : ", ") + key + ": " + python_repr(entry.value);
    }
    return "{" + entries + "}";
  }
  if (value.form == ScalarForm::kBigInteger) return *value.text();
  return value.text() ? python_repr(*value.text()) : scalar_text(value);
}

}  // namespace runner
