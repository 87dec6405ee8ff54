#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Returns the origin of a value in human-readable form: "recipes/classify.yaml:12", or "override
/// 'lr=1'" as it was typed. Empty if the location is unknown.
std::string origin_text(const Location& where);

/// Returns the origin of each scalar and each empty container of `value`, by its JSON pointer:
/// {"from": "file", "file", "line", "column"}, {"from": "override", "override": "lr=1"}, {"from":
/// "default"} or {"from": "unknown"}.
nlohmann::ordered_json origins_json(const Value& value);

/// Returns `value` as YAML with the origin at the end of each line: "lr: 0.1    #
/// recipes/a.yaml:3", or "default" if the value comes from a schema.
std::string yaml_with_origins(const Value& value);
/// Does the same with origins taken from `origins`, the result of origins_json() for an equal
/// value. Values missing from `origins` get no origin.
std::string yaml_with_origins(const Value& value, const nlohmann::ordered_json& origins);

/// A file or override that sets a key.
struct Write {
  Location where;
  std::optional<Value> value;  ///< nullopt if the key is deleted or edited
  const Edit* edit = nullptr;  ///< borrowed from the override that edits the value: append(x)
};

/// Returns everything that set `key` ("train.epochs") or the mapping that contains it, in
/// order. `layers` are the parts of a composition as they were merged, and `overrides` were applied
/// after them. The last write takes effect, but mappings are merged.
std::vector<Write> writes(std::span<const Value> layers, std::span<const Override> overrides,
                          std::string_view key);

/// Formats `writes` for display. Marks the last one, which takes effect, except for a mapping, to
/// which all contribute:
///
///   train.epochs: 8
///     default                               10
///     recipes/train/from_scratch.yaml:3     50
///     override 'train.epochs=8'             8    <- this one is used
///
/// `value` is the final value, or null; `fallback` is the schema's default, if there is one.
std::string provenance_text(std::string_view key, const Value* value,
                            const std::optional<Value>& fallback, const std::vector<Write>& writes);

/// Returns the same information as JSON: {"key", "value", "default", "writes": [{"origin", "value"
/// | "deleted" | "edited"}]}.
nlohmann::ordered_json provenance_json(std::string_view key, const Value* value,
                                       const std::optional<Value>& fallback,
                                       const std::vector<Write>& writes);

/// A key that differs between two recipes; a side is absent if that recipe lacks the key. Mappings
/// are compared value by value, and each list as a single value.
struct Difference {
  std::string key;  ///< "train.optimizer.learning_rate"
  std::optional<Value> before, after;
  std::vector<std::string> path = {};  ///< the key, part by part
};

/// Returns all differences, in the order of `before`. Keys found only in `after` come at the end of
/// their mapping.
std::vector<Difference> differences(const Value& before, const Value& after);

/// Formats each difference on one line, with the origins of the values:
///
///   ~ train.epochs: 50 -> 8    # recipes/train/from_scratch.yaml:3 -> override 'train.epochs=8'
///   + data.make: 3             # experiments/quickstart.yaml:12
///   - data.cache_mib: 512      # recipes/data/image_folder.yaml:8
std::string differences_text(const std::vector<Difference>& differences);

/// Returns the differences as JSON: [{"key", "before", "after", "before_origin", "after_origin"}].
/// If a recipe lacks the key, the value and the origin for its side are left out.
nlohmann::ordered_json differences_json(const std::vector<Difference>& differences);

}  // namespace runner
