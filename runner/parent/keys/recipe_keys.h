#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// A name that other programs have for a key of a recipe, in files as on the command line.
struct OtherName {
  std::string mapping;  ///< the key at the top of a recipe that holds it: "device"
  std::string other;    ///< "gpu_wait_timeout_minutes"
  std::string own;      ///< its name here: "wait_timeout_minutes"
};

/// What composing a recipe asks the schemas: SchemaSet answers. Composing (config/) knows no schema
/// and the schemas (schema/) know no composition; both know this.
class RecipeKeys {
 public:
  /// A key, part by part: {"train", "optimizer", "learning_rate"}.
  using Path = std::span<const std::string>;

  virtual ~RecipeKeys() = default;

  /// If there is a key at `path` of `recipe`, whose stages name their kinds: its default (a null
  /// Value if it has none); else nullopt. A plain key=value may set such a key, and an
  /// interpolation may read its default.
  virtual std::optional<Value> declared(const Value& recipe, Path path) const = 0;

  /// The keys of the mapping at `path`, for "did you mean".
  virtual std::vector<std::string> declared_keys(const Value& recipe, Path path) const = 0;

  /// True if a single value may be added at `path`, where there is none: +path=value. For advice.
  virtual bool may_add(const Value& recipe, Path path) const = 0;

  /// The kinds that have the key at `path`, if the mapping around it is of another kind, which
  /// lacks it: {"sgd"} for train.optimizer.momentum of adamw. For advice.
  virtual std::vector<std::string> other_kinds(const Value& recipe, Path path) const = 0;

  /// The keys that have further names.
  virtual std::vector<OtherName> other_names() const = 0;

  /// Checks a resolved recipe and, if it is valid, fills in every default. Returns all errors at
  /// once, in source order. Values filled in have the Location of their mapping.
  virtual Diagnostics validate(Value& recipe) const = 0;
};

/// For documents that no schema describes: none of their keys is declared, and any is accepted.
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
