#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Reads the options of one stage into typed fields, collecting every error.
///
///   SupervisedConfig config;
///   reader.read("epochs", config.epochs);
///   ConfigReader optimizer = reader.section("optimizer");   // nested mapping
///   optimizer.read("learning_rate", config.learning_rate);
///   if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
///
/// Names, types and ranges have already been checked against the schema, and all defaults have been
/// filled in, so a missing key is a bug in Retort. finish() also reports keys that were never read,
/// so a schema cannot offer an option that the code ignores.
class ConfigReader {
 public:
  /// `config` must outlive this reader and its sections. `pointer` is the location of `config`,
  /// such as "/train".
  ConfigReader(const Value& config, std::string pointer);

  /// Stores the value of `key` in `field`. If the key is missing or its value is not a T, adds an
  /// error and leaves `field` unchanged. T is bool, int64, double (which accepts integers too),
  /// string, Value, a vector of int64, double or string, or an optional of these (null becomes
  /// nullopt). The keys common to all stages (kind, name, inputs and foreach) need not be read.
  template <typename T>
  void read(std::string_view key, T& field);

  /// Returns a reader for the nested mapping `key`, owned by this reader. Its errors are returned
  /// by this reader's finish().
  ConfigReader& section(std::string_view key);

  /// Returns a reader for each mapping in the list `key`, at "/train/groups/0" and so on, owned by
  /// this reader.
  std::vector<ConfigReader*> sections(std::string_view key);

  /// Returns the raw value of `key`, or null if absent. Everything in it counts as read.
  const Value* raw(std::string_view key);

  /// Adds an error at `key`, found by the caller.
  void fail(std::string_view key, ErrorCode code, std::string message, std::string help = "");

  const std::string& pointer() const { return pointer_; }

  /// Returns all errors so far, plus one for each key that was never read.
  Diagnostics finish();

 private:
  ConfigReader& add_section(const std::string& pointer, const Value& value);

  const Value& config_;
  const std::string pointer_;
  bool is_section_ = false;
  std::set<std::string, std::less<>> read_;
  std::vector<std::unique_ptr<ConfigReader>> sections_;
  Diagnostics errors_;
};

/// Maps the word at `key` to a value:
///
///   options.keep = choice<Keep>(reader, "keep", {{"best", Keep::kBest}, {"last", Keep::kLast}});
///
/// A word that the schema allows but the table lacks is a bug in Retort: a kInternal error is added
/// to `reader` and T{} is returned, but never used, since finish() rejects the options. T may be a
/// pointer to a function that reads the options for the chosen word; it is null after an error.
template <typename T>
T choice(ConfigReader& reader, std::string_view key,
         std::span<const std::pair<std::string_view, T>> table) {
  const Value* const value = reader.raw(key);
  std::string word;
  reader.read(key, word);
  const auto found = std::ranges::find(table, word, [](const auto& entry) { return entry.first; });
  if (found != table.end()) return found->second;
  if (value && value->text()) {
    reader.fail(key, ErrorCode::kInternal,
                "'" + std::string(key) + "' may be '" + word +
                    "' according to its schema, but no code handles it",
                "this is a bug in Retort");
  }
  return T{};
}

template <typename T>
T choice(ConfigReader& reader, std::string_view key,
         std::initializer_list<std::pair<std::string_view, T>> table) {
  return choice<T>(reader, key, std::span(table.begin(), table.size()));
}

/// Reads the value of `key` into `field`. The word "auto" becomes nullopt.
template <typename T>
void read_or_auto(ConfigReader& reader, std::string_view key, std::optional<T>& field) {
  const Value* const value = reader.raw(key);
  if (value && value->text() && *value->text() == "auto") field.reset();
  else reader.read(key, field.emplace());
}

}  // namespace runner
