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

/// Where a value came from, for people: "recipes/classify.yaml:12", or "override 'lr=1'" as it was
/// typed. Empty when the place is not known.
std::string origin_text(const Location& where);

/// Where each scalar and each empty container of `value` came from, by its JSON pointer: {"from":
/// "file", "file", "line", "column"}, {"from": "override", "override": "lr=1"}, {"from": "default"}
/// or {"from": "unknown"}.
nlohmann::ordered_json origins_json(const Value& value);

/// `value` as YAML, each line of it followed by where it came from: "lr: 0.1    #
/// recipes/a.yaml:3". What was filled in from a schema says "default".
std::string yaml_with_origins(const Value& value);

/// One file or override having its say about a key.
struct Write {
  Location where;
  std::optional<Value> value;  ///< nullopt: the key is deleted
  const Edit* edit = nullptr;  ///< borrowed from the override, whose value it changes: append(x)
};

/// Everything that wrote the key `key` ("train.epochs"), or the mapping that holds it, in the order
/// in which it was done: `layers` are the parts of a composition as they were merged, `overrides`
/// what was applied after them. The last one counts, but mappings are merged.
std::vector<Write> writes(std::span<const Value> layers, std::span<const Override> overrides,
                          std::string_view key);

/// For people, the last line of those that counts marked, but for a mapping, of which all count:
///
///   train.epochs: 8
///     default                               10
///     recipes/train/from_scratch.yaml:3     50
///     override 'train.epochs=8'             8    <- this one is used
///
/// `value` is what it came to and `fallback` the schema's default, where there are such.
std::string provenance_text(std::string_view key, const Value* value,
                            const std::optional<Value>& fallback, const std::vector<Write>& writes);

/// {"key", "value", "default", "writes": [{"origin", "value" | "deleted" | "edited"}]}.
nlohmann::ordered_json provenance_json(std::string_view key, const Value* value,
                                       const std::optional<Value>& fallback,
                                       const std::vector<Write>& writes);

/// A key that two recipes hold differently; each side absent where that recipe lacks the key.
/// Mappings are followed down to their values, lists are taken whole.
struct Difference {
  std::string key;  ///< "train.optimizer.learning_rate"
  std::optional<Value> before, after;
  std::vector<std::string> path = {};  ///< the key, part by part
};

/// All of them: in the order of `before`, and what only `after` has at the end of its mapping.
std::vector<Difference> differences(const Value& before, const Value& after);

/// A line each, with where the values come from:
///
///   ~ train.epochs: 50 -> 8    # recipes/train/from_scratch.yaml:3 -> override 'train.epochs=8'
///   + data.make: 3             # experiments/quickstart.yaml:12
///   - data.cache_mib: 512      # recipes/data/image_folder.yaml:8
std::string differences_text(const std::vector<Difference>& differences);

/// [{"key", "before", "after", "before_origin", "after_origin"}]; a side that is not there has
/// neither.
nlohmann::ordered_json differences_json(const std::vector<Difference>& differences);

}  // namespace runner
