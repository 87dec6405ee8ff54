#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/error/result.h"
#include "runner/value/value.h"

namespace runner {

/// Reads the options of one stage into typed fields, collecting every error.
///
///   SupervisedConfig config;
///   reader.read("epochs", config.epochs);
///   ConfigReader optimizer = reader.section("optimizer");   // nested mapping
///   optimizer.read("learning_rate", config.learning_rate);
///   if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
///
/// The schema has checked names, types and ranges and filled in every default, so a key that is
/// missing here is our own mistake. finish() is the second net: it reports keys that nobody read,
/// so a schema cannot promise what the code ignores.
class ConfigReader {
 public:
  /// `config` and every reader made by section() must outlive this; `pointer` is where config stands, "/train".
  ConfigReader(const Value& config, std::string pointer);

  /// Stores the value of `key` in `field`; an error, and `field` untouched, when it is not there or not a T.
  /// T: bool, int64, double (takes integers too), string, Value, vectors of int64, double and string, and
  /// optionals of all these (null is empty). The common keys kind, name, inputs and foreach of a stage need not be
  /// read.
  template <typename T>
  void read(std::string_view key, T& field);

  /// A reader of the nested mapping `key`; what it finds ends up in this reader's finish(). It lives as long as this.
  ConfigReader& section(std::string_view key);

  /// The same for a list of mappings, a reader for each: at "/train/groups/0" and so on.
  std::vector<ConfigReader*> sections(std::string_view key);

  /// The value of `key` without a type, marked as read as a whole; null when absent.
  const Value* raw(std::string_view key);

  /// Adds an error of the caller's at `key`.
  void fail(std::string_view key, ErrorCode code, std::string message, std::string help = "");

  const std::string& pointer() const { return pointer_; }

  /// Everything wrong so far, plus one error for each key that was never read.
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

}  // namespace runner
