#include "stages/weights/weight_shards.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/text/printable.h"
#include "stages/weights/strict_json.h"

namespace stages {

WeightShards parse_weight_shards(std::string_view text) {
  constexpr std::size_t kDepth = 32;
  const nlohmann::json index = parse_strict_json(text, kDepth, "it");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) throw std::invalid_argument("it has no weight_map");
  WeightShards shards;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.starts_with('.') || name.find('/') != name.npos || name.find('\0') != name.npos) {
      throw std::invalid_argument("it has the tensor '" + runner::printable_ascii(tensor) + "' in " +
                                  runner::printable_ascii(file.dump()) + ", which is no file beside it");
    }
    shards[name].insert(tensor);
  }
  if (shards.empty()) throw std::invalid_argument("its weight_map is empty");
  return shards;
}

}  // namespace stages
