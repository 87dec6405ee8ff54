#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runner/stage/config_reader.h"

namespace runner {

/// The value of the word at `key`:
///
///   options.keep = choice<Keep>(reader, "keep", {{"best", Keep::kBest}, {"last", Keep::kLast}});
///
/// No entry stands for all other words. The schema has let a word through that the table lacks, so that is our own
/// mistake: it becomes an error kInternal of `reader`, and T{} comes back, which nobody gets to use since finish()
/// refuses the options. A T may be a function that reads what goes with the word; after an error it is null.
template <typename T>
T choice(ConfigReader& reader, std::string_view key, std::span<const std::pair<std::string_view, T>> table) {
  const Value* const value = reader.raw(key);
  std::string word;
  reader.read(key, word);
  const auto found = std::ranges::find(table, word, [](const auto& entry) { return entry.first; });
  if (found != table.end()) return found->second;
  if (value && value->text()) {
    reader.fail(key, ErrorCode::kInternal,
                "'" + std::string(key) + "' may be '" + word + "' by its schema, and no code handles it",
                "this is an error in Retort: please report it");
  }
  return T{};
}

template <typename T>
T choice(ConfigReader& reader, std::string_view key, std::initializer_list<std::pair<std::string_view, T>> table) {
  return choice<T>(reader, key, std::span(table.begin(), table.size()));
}

/// Reads the value of `key` into `field`; the word "auto" is nullopt.
template <typename T>
void read_or_auto(ConfigReader& reader, std::string_view key, std::optional<T>& field) {
  const Value* const value = reader.raw(key);
  if (value && value->text() && *value->text() == "auto") field.reset();
  else reader.read(key, field.emplace());
}

}  // namespace runner
