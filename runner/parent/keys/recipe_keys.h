#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Another program's name for a recipe key, accepted in files and on the command line.
struct OtherName {
  std::string mapping;  ///< the top-level key of the recipe that contains it: "device"
  std::string other;    ///< "gpu_wait_timeout_minutes"
  std::string own;      ///< the name of the key in Retort: "wait_timeout_minutes"
};

/// The schema information needed to compose a recipe; implemented by SchemaSet. Composing (config/)
/// and the schemas (schema/) do not depend on each other; both depend on this class.
class RecipeKeys {
 public:
  /// A key, part by part: {"train", "optimizer", "learning_rate"}.
  using Path = std::span<const std::string>;

  virtual ~RecipeKeys() = default;

  /// Returns the default of the key at `path` in `recipe`, in which stages name their kinds: a null
  /// Value if the key has no default, nullopt if there is no such key. A plain key=value may set a
  /// declared key, and an interpolation may read its default.
  virtual std::optional<Value> declared(const Value& recipe, Path path) const = 0;

  /// Returns the keys of the mapping at `path`, for "did you mean".
  virtual std::vector<std::string> declared_keys(const Value& recipe, Path path) const = 0;

  /// True if +path=value may add a single value at `path`, where there is none yet. For help
  /// messages.
  virtual bool may_add(const Value& recipe, Path path) const = 0;

  /// Returns the kinds that have the key at `path` if the enclosing mapping has a kind that lacks
  /// the key: {"sgd"} for train.optimizer.momentum with adamw. For help messages.
  virtual std::vector<std::string> other_kinds(const Value& recipe, Path path) const = 0;

  /// Returns the alternative names of all keys.
  virtual std::vector<OtherName> other_names() const = 0;

  /// Checks a resolved recipe and, if it is valid, fills in all defaults. Returns all errors at
  /// once, in source order. Filled-in values get the Location of their mapping.
  virtual Diagnostics validate(Value& recipe) const = 0;
};

/// For documents that no schema describes: no key is declared, and any key is accepted.
class NoSchema : public RecipeKeys {
 public:
  std::optional<Value> declared(const Value&, Path) const override { return std::nullopt; }
  std::vector<std::string> declared_keys(const Value&, Path) const override { return {}; }
  bool may_add(const Value&, Path) const override { return true; }
  std::vector<std::string> other_kinds(const Value&, Path) const override { return {}; }
  std::vector<OtherName> other_names() const override { return {}; }
  Diagnostics validate(Value&) const override { return {}; }
};

inline const NoSchema kWithoutSchema;

}  // namespace runner
