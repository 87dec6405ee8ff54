#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/value/value.h"

namespace runner {

/// A key that two recipes hold differently; each side absent where that recipe lacks the key. Mappings are followed
/// down to their values, lists are taken whole.
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

/// [{"key", "before", "after", "before_origin", "after_origin"}]; a side that is not there has neither.
nlohmann::ordered_json differences_json(const std::vector<Difference>& differences);

}  // namespace runner
